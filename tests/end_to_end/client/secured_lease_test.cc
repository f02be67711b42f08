// Credentials that change, or are withdrawn, while the client library is at
// work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "dedupe/run_once.h"
#include "tests/end_to_end/client/secured_deployment.h"

namespace dedupe::testing {
namespace {

namespace dd = ::dedupe::client;

dd::Done Answer() { return {{.code = 200, .headers = {}, .body = "b"}}; }

// Returns when it is asked to stop, or after the limit; how long that took.
absl::Duration WaitForStop(const dd::Attempt& attempt, absl::Duration limit) {
  return TimeOf([&] {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, attempt.stop_token(),
                     absl::ToChronoMilliseconds(limit), [] { return false; });
  });
}

// --- A token in a file -------------------------------------------------------

class TokenFileTest : public SecuredTest {
 protected:
  TokenFileTest() : path_(absl::StrCat(ScratchDirectory(), "/", Name())) {}

  std::unique_ptr<LibraryClient> ConnectByFile() const {
    dd::ClientOptions options = SecuredOptions(Server());
    options.token = dd::TokenFromFile(path_);
    return MakeLibraryClient(Address(), options);
  }
  void WriteInPlace(const std::string& token) const {
    std::ofstream(path_, std::ios::trunc) << token << "\n";
  }
  void Rename(const std::string& token) const {
    std::ofstream(path_ + ".new") << token << "\n";
    std::filesystem::rename(path_ + ".new", path_);
  }
  // The token is replaced while calls go on, and the old one revoked: all are
  // heard.
  void ExpectNoFailure(const std::function<void(const std::string&)>& replace);

  const std::string path_;
};

void TokenFileTest::ExpectNoFailure(
    const std::function<void(const std::string&)>& replace) {
  const std::string old = NewToken();
  WriteInPlace(old);
  const auto client = ConnectByFile();
  std::atomic<bool> done = false;
  std::atomic<int> calls = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 2; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; !done; ++i) {
        Expect<dd::Ran>(dd::RunOnce(*client,
                                    RunFor(absl::StrCat(caller, "-", i)),
                                    [](dd::Attempt&) { return Answer(); }));
        ++calls;
      }
    });
  }
  replace(AnotherToken());
  absl::SleepFor(absl::Seconds(3));
  Server().administrator().RevokeToken(old);
  Client revoked = Server().NewClient({}, {"Bearer " + old});
  EXPECT_TRUE(GuardedServer::Await([&] {
    return revoked.Lookup({}).status.error_code() ==
           grpc::StatusCode::UNAUTHENTICATED;
  }));
  const int before = calls;
  EXPECT_TRUE(GuardedServer::Await([&] { return calls > before + 20; }));
  done = true;
  for (std::thread& caller : callers) caller.join();
}

TEST_F(TokenFileTest, ReplacedFileFailsNoCall) {
  ExpectNoFailure([this](const std::string& token) { Rename(token); });
}

TEST_F(TokenFileTest, RewrittenFileFailsNoCall) {
  ExpectNoFailure([this](const std::string& token) { WriteInPlace(token); });
}

TEST_F(TokenFileTest, FileMayAppearLater) {
  const std::string token = NewToken();
  const auto client = ConnectByFile();
  const auto refused = client->Begin(BeginFor("k"));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(dd::ReasonOf(refused.status()), "CREDENTIALS_REFUSED");
  Rename(token);
  EXPECT_TRUE(GuardedServer::Await(
      [&] { return client->Begin(BeginFor("k")).ok(); }, absl::Seconds(2)));
}

// --- Leases ------------------------------------------------------------------

using SecuredLeaseTest = SecuredTest;

TEST_F(SecuredLeaseTest, RenewalsBringTheToken) {
  const auto client = Connect(NewToken());
  dd::RunOnceRequest request = RunFor("k");
  request.lease = absl::Seconds(1);
  Expect<dd::Ran>(dd::RunOnce(*client, request, [&](dd::Attempt& attempt) {
    WaitForStop(attempt, absl::Seconds(3));
    EXPECT_FALSE(attempt.stop_token().stop_requested());
    EXPECT_GT(attempt.lease_left(), absl::ZeroDuration());
    return Answer();
  }));
  // Begin, Complete, and a renewal each third of the lease.
  EXPECT_GE(sendings(), 2 + 7);
}

class RevocationTest : public SecuredTest {
 protected:
  // Begins with a token that is revoked as soon as the work runs, and ends with
  // that when it is told to stop.
  absl::StatusOr<dd::RunOnceOutcome> RunRevoked(const dd::WorkResult& result) {
    const std::string token = NewToken();
    const auto client = Connect(token);
    dd::RunOnceRequest request = RunFor("k");
    request.lease = absl::Seconds(3);
    return dd::RunOnce(*client, request, [&](dd::Attempt& attempt) {
      Server().administrator().RevokeToken(token);
      Client other = Server().NewClient({}, {"Bearer " + token});
      EXPECT_TRUE(GuardedServer::Await([&] {
        return other.Lookup({}).status.error_code() ==
               grpc::StatusCode::UNAUTHENTICATED;
      }));
      absl::Duration left;
      // Called at once, where the work itself might wake up late.
      const std::stop_callback note(attempt.stop_token(),
                                    [&] { left = attempt.lease_left(); });
      // The last renewal that was heard may be as young as the revocation.
      EXPECT_LE(WaitForStop(attempt, absl::Seconds(6)), absl::Seconds(3));
      EXPECT_TRUE(attempt.stop_token().stop_requested());
      // It has not lapsed, so nobody else has begun.
      EXPECT_GT(left, absl::ZeroDuration());
      return result;
    });
  }
};

TEST_F(RevocationTest, WorkIsStoppedBeforeItsLeaseLapses) {
  const auto outcome = Expect<dd::NotRecorded>(RunRevoked(Answer()));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(dd::ReasonOf(outcome.status), "CREDENTIALS_REFUSED");
  EXPECT_EQ(outcome.response.body, "b");
  // Under a new token the next attempt takes over, and has to look.
  const auto client = Connect(AnotherToken());
  dd::RunOnceRequest request = RunFor("k");
  request.wait = absl::Seconds(5);
  const auto next =
      Expect<dd::Ran>(dd::RunOnce(*client, request, [](dd::Attempt& attempt) {
        EXPECT_TRUE(attempt.info().taken_over);
        return Answer();
      }));
  EXPECT_FALSE(next.reconciled);
}

TEST_F(RevocationTest, WorkThatDidNothingIsFreed) {
  // Release is not heard either; the lease lapses.
  Expect<dd::Freed>(RunRevoked(dd::NothingHappened{}));
}

}  // namespace
}  // namespace dedupe::testing
