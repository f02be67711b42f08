// F30: certificates change, for better and for worse, under a server to which
// callers keep connecting.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/telemetry/metrics.h"
#include "server/tls/certificate_watch.h"
#include "tests/support/certificates.h"
#include "tests/unit/tls/certificate_folder.h"
#include "tests/unit/tls/event_log.h"
#include "tests/unit/tls/tls_client.h"
#include "tests/unit/tls/tls_server.h"

namespace dedupe {
namespace {

using testing::Caller;
using testing::CertificateAndKey;
using testing::CertificateAuthority;
using testing::CertificateFolder;
using testing::CertificateOptions;
using testing::EventLog;

constexpr absl::Duration kInterval = absl::Milliseconds(200);
// The bound that operators are promised.
const absl::Duration kTakenWithin = kInterval + absl::Seconds(5);

// Connects and makes calls, over and over, each on a new connection.
class Callers {
 public:
  Callers(int port, Caller caller) : port_(port), caller_(std::move(caller)) {
    threads_.emplace_back([this] { Connect(); });
    threads_.emplace_back([this] { Call(); });
  }
  ~Callers() { Stop(); }

  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  int connected() const { return connected_; }
  int called() const { return called_; }
  std::vector<std::string> failures() {
    absl::MutexLock lock(&mutex_);
    return failures_;
  }
  std::string last_serial() {
    absl::MutexLock lock(&mutex_);
    return last_serial_;
  }

 private:
  void Connect() {
    while (!stopping_) {
      const auto handshake = testing::Connect(port_, caller_);
      absl::MutexLock lock(&mutex_);
      ++connected_;
      if (handshake.ok()) {
        last_serial_ = handshake->server_serial;
      } else {
        failures_.push_back(handshake.status().ToString());
      }
    }
  }

  void Call() {
    while (!stopping_) {
      const grpc::Status status = testing::Call(port_, caller_).status;
      absl::MutexLock lock(&mutex_);
      ++called_;
      if (!status.ok()) failures_.push_back(status.error_message());
    }
  }

  const int port_;
  const Caller caller_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connected_{0};
  std::atomic<int> called_{0};
  absl::Mutex mutex_;
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
  std::string last_serial_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

class RotationTest : public ::testing::Test {
 protected:
  RotationTest() {
    folder_.WritePair(current_);
    folder_.WriteClientCa(client_ca_.certificate_pem());
    const auto served = LoadCertificate(folder_.files());
    credentials_ =
        std::make_unique<TlsCredentials>(*served, ClientCertificates::kRequire);
    server_ = std::make_unique<testing::TlsServer>(*credentials_);
    CertificateWatch::Options options;
    options.interval = kInterval;
    watch_ = std::make_unique<CertificateWatch>(
        folder_.files(), *served, *credentials_, revocation_, options);
    Caller caller;
    // They have the next CA of servers already, as they must have.
    caller.ca_pem = ca_.certificate_pem() + next_ca_.certificate_pem();
    caller.own = client_ca_.Issue();
    callers_ = std::make_unique<Callers>(server_->port(), caller);
  }

  // Callers must be shown the pair within the bound; prints when they were.
  void Good(const char* name, const CertificateAndKey& pair,
            const std::function<void()>& write) {
    const absl::Time start = absl::Now();
    write();
    while (callers_->last_serial() != pair.serial &&
           absl::Now() < start + kTakenWithin) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_EQ(callers_->last_serial(), pair.serial) << name;
    std::printf("%s: shown after %s\n", name,
                absl::FormatDuration(
                    absl::Trunc(absl::Now() - start, absl::Milliseconds(1)))
                    .c_str());
    current_ = pair;
    DwellTwoIntervals();
  }

  // It must be told of, and callers go on being shown the old pair.
  void Bad(const char* name, const std::function<void()>& write) {
    const int told = log_.Count("certificate_refused");
    write();
    log_.Await("certificate_refused", told + 1);
    DwellTwoIntervals();
    EXPECT_EQ(ReadMetric(Metric::kCertificateRefusals) - refusals_,
              log_.Count("certificate_refused"))
        << name;
    EXPECT_EQ(callers_->last_serial(), current_.serial) << name;
  }

  // And for some connections at least.
  void DwellTwoIntervals() {
    const absl::Time until = absl::Now() + 2 * kInterval;
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    const int connected = callers_->connected() + 3;
    const int called = callers_->called() + 2;
    while (absl::Now() < until || callers_->connected() < connected ||
           callers_->called() < called) {
      ASSERT_LT(absl::Now(), deadline) << "callers stand still";
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  EventLog log_;
  const int64_t refusals_ = ReadMetric(Metric::kCertificateRefusals);
  CertificateAuthority ca_{"acme servers"};
  CertificateAuthority next_ca_{"acme servers, next"};
  CertificateAuthority client_ca_{"acme callers"};
  CertificateAndKey current_ = ca_.Issue();
  CertificateFolder folder_;
  Revocation revocation_;
  std::unique_ptr<TlsCredentials> credentials_;
  std::unique_ptr<testing::TlsServer> server_;
  std::unique_ptr<CertificateWatch> watch_;
  std::unique_ptr<Callers> callers_;
};

// F30
TEST_F(RotationTest, NoConnectionFailsWhateverIsInTheFiles) {
  const auto rotate = [&](const CertificateAndKey& pair) {
    return [&] { folder_.WritePair(pair); };
  };
  const CertificateAndKey second = ca_.Issue();
  Good("good pair", second, rotate(second));
  const CertificateAndKey third = ca_.Issue();
  Bad("key without certificate", [&] { folder_.WriteKey(third.key_pem); });
  Bad("mismatched pair", [&] {
    folder_.WritePair({ca_.Issue().certificate_pem, third.key_pem, ""});
  });
  Bad("truncated",
      [&] { folder_.WriteCertificate(third.certificate_pem.substr(0, 300)); });
  Bad("missing file", [&] { unlink(folder_.files().certificate.c_str()); });
  CertificateOptions expired;
  expired.not_after = absl::Now() - absl::Minutes(1);
  Bad("expired", [&] { folder_.WritePair(ca_.Issue(expired)); });
  const CertificateAndKey of_next_ca = next_ca_.Issue();
  Good("of a new CA", of_next_ca, rotate(of_next_ca));
  // Callers of the old CA of callers stay trusted beside the new.
  CertificateAuthority next_client_ca("acme callers, next");
  const CertificateAndKey fourth = next_ca_.Issue();
  Good("with a new CA of callers", fourth, [&] {
    folder_.WriteClientCa(client_ca_.certificate_pem() +
                          next_client_ca.certificate_pem());
    folder_.WritePair(fourth);
  });
  Caller of_next_client_ca;
  of_next_client_ca.ca_pem = next_ca_.certificate_pem();
  of_next_client_ca.own = next_client_ca.Issue();
  EXPECT_TRUE(testing::Connect(server_->port(), of_next_client_ca).ok());
  Good("back to good", second, rotate(second));
  callers_->Stop();
  EXPECT_EQ(callers_->failures(), std::vector<std::string>());
  std::printf("%d connections, %d calls, 0 may fail\n", callers_->connected(),
              callers_->called());
}

}  // namespace
}  // namespace dedupe
