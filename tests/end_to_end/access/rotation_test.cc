// Certificates that change while calls and connections go on: good ones are
// soon served, and what is not fit never reaches a caller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/end_to_end/access/tls_server.h"
#include "tests/unit/tls/tls_client.h"

namespace dedupe::testing {
namespace {

// The server looks each 200 ms; this is how soon it has to have seen.
constexpr absl::Duration kReloadedWithin = absl::Seconds(5);

// New handshakes, one after the other, and what they saw.
class Handshakes {
 public:
  explicit Handshakes(TlsServer& server)
      : server_(server), thread_([this] { Run(); }) {}
  ~Handshakes() {
    stop_ = true;
    thread_.join();
  }

  int failures() const { return failures_; }
  int count() const { return count_; }
  std::string serial() {
    absl::MutexLock lock(&mutex_);
    return serial_;
  }

 private:
  void Run() {
    while (!stop_) {
      const auto handshake =
          Connect(server_.port(),
                  {.ca_pem = server_.server_authority().certificate_pem()});
      ++count_;
      if (!handshake.ok()) {
        ++failures_;
        ADD_FAILURE() << handshake.status();
        continue;
      }
      absl::MutexLock lock(&mutex_);
      serial_ = handshake->server_serial;
    }
  }

  TlsServer& server_;
  std::atomic<bool> stop_{false};
  std::atomic<int> failures_{0};
  std::atomic<int> count_{0};
  absl::Mutex mutex_;
  std::string serial_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Calls on one connection, one after the other.
class Calls {
 public:
  Calls(TlsServer& server, const std::string& token)
      : client_(server.NewClient({}, {"Bearer " + token})),
        thread_([this] { Run(); }) {}
  ~Calls() {
    stop_ = true;
    thread_.join();
  }

  int failures() const { return failures_; }
  int count() const { return count_; }

 private:
  void Run() {
    for (; !stop_; ++count_) {
      const BeginReply reply = client_.Begin(
          BeginOf(absl::StrCat("load-", count_.load()), "attempt-1"));
      if (!reply.status.ok()) ++failures_;
    }
  }

  Client client_;
  std::atomic<bool> stop_{false};
  std::atomic<int> failures_{0};
  std::atomic<int> count_{0};
  std::thread thread_;
};

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

class RotationTest : public ::testing::Test {
 protected:
  RotationTest() {
    const Administrator administrator = server_.administrator();
    administrator.SetPrincipal("load", {"--role=caller", "--client-ids=acme"});
    token_ = administrator.CreateToken("load");
    Client client = server_.NewClient({}, {"Bearer " + token_});
    EXPECT_TRUE(server_.Settled(client, grpc::StatusCode::OK).ok());
  }

  int Refusals() {
    return CountOf(server_.deployment().server().process().Output(),
                   "\"event\":\"certificate_refused\"");
  }
  // The change is refused, in the log, and the old certificate goes on.
  void ExpectRefused(Handshakes& handshakes, const std::string& what,
                     const std::function<void()>& change) {
    const std::string before = handshakes.serial();
    const int refusals = Refusals();
    change();
    EXPECT_TRUE(GuardedServer::Await([&] { return Refusals() > refusals; },
                                     kReloadedWithin))
        << what;
    // Of the contents that are there now, and the same for two more looks.
    const int handshakes_before = handshakes.count();
    EXPECT_TRUE(GuardedServer::Await([&] {
      return handshakes.count() > handshakes_before + 20;
    })) << what;
    EXPECT_EQ(handshakes.serial(), before) << what;
  }
  void ExpectServed(Handshakes& handshakes, const std::string& what,
                    const CertificateAndKey& next) {
    const absl::Time began = absl::Now();
    server_.folder().WritePair(next);
    EXPECT_TRUE(GuardedServer::Await(
        [&] { return handshakes.serial() == next.serial; }, kReloadedWithin))
        << what;
    GTEST_LOG_(INFO) << what << ": served after " << absl::Now() - began;
  }

  TlsServer server_;
  std::string token_;
};

TEST_F(RotationTest, OnlyGoodPairsReachCallers) {
  CertificateAuthority& authority = server_.server_authority();
  CertificateFolder& folder = server_.folder();
  const CertificateAndKey next = authority.Issue();
  {
    Handshakes handshakes(server_);
    Calls calls(server_, token_);
    ASSERT_TRUE(
        GuardedServer::Await([&] { return !handshakes.serial().empty(); }));
    ExpectServed(handshakes, "good pair", next);
    const CertificateAndKey other = authority.Issue();
    ExpectRefused(handshakes, "key without its certificate",
                  [&] { folder.WriteKey(other.key_pem); });
    ExpectRefused(handshakes, "mismatched pair", [&] {
      folder.WriteKey(authority.Issue().key_pem);
      folder.WriteCertificate(other.certificate_pem);
    });
    ExpectRefused(handshakes, "truncated", [&] {
      folder.WriteCertificate(other.certificate_pem.substr(0, 300));
    });
    ExpectRefused(handshakes, "missing",
                  [&] { std::filesystem::remove(folder.files().certificate); });
    ExpectRefused(handshakes, "expired", [&] {
      folder.WritePair(
          authority.Issue({.not_before = absl::Now() - absl::Hours(48),
                           .not_after = absl::Now() - absl::Hours(24)}));
    });
    ExpectServed(handshakes, "good again", other);
    EXPECT_EQ(handshakes.failures(), 0);
    EXPECT_EQ(calls.failures(), 0);
    EXPECT_GT(calls.count(), 50);
    GTEST_LOG_(INFO) << handshakes.count() << " handshakes, "
                     << handshakes.failures() << " failed; " << calls.count()
                     << " calls, " << calls.failures() << " failed";
  }
}

// Callers of the old one are turned away, those of the new let in.
TEST_F(RotationTest, NewClientAuthorityTakesEffect) {
  CertificateAuthority next("next clients");
  server_.administrator().SetPrincipal("next",
                                       {"--role=caller", "--client-ids=acme",
                                        "--certificates=dns:next.internal"});
  const CertificateAndKey own = IssueTo(next, {"DNS:next.internal"});
  const auto can_call = [&] {
    Client client = server_.NewClient(own);
    return client.Lookup(LookupOf(BeginOf("key", "attempt-1"))).status.ok();
  };
  EXPECT_FALSE(can_call());
  server_.folder().WriteClientCa(next.certificate_pem());
  server_.folder().WriteClientCrl(next.Crl({}));
  EXPECT_TRUE(GuardedServer::Await(can_call));
}

TEST_F(RotationTest, HangUpLooksAtOnce) {
  Deployment& deployment = server_.deployment();
  deployment.server().process().Signal(SIGHUP);
  EXPECT_TRUE(deployment.server().process().WaitForOutput(
      "\"event\":\"reload_asked\""));
  Client client = server_.NewClient({}, {"Bearer " + token_});
  EXPECT_THAT(client.Lookup(LookupOf(BeginOf("key", "attempt-1"))), IsOk());
}

}  // namespace
}  // namespace dedupe::testing
