// What becomes of certificate files that change under a server.
#include "server/tls/certificate_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/clock.h"
#include "server/telemetry/metrics.h"
#include "tests/support/certificates.h"
#include "tests/unit/tls/certificate_folder.h"
#include "tests/unit/tls/event_log.h"

namespace dedupe {
namespace {

using testing::CertificateAndKey;
using testing::CertificateAuthority;
using testing::CertificateFolder;
using testing::CertificateOptions;
using testing::CrlOptions;
using testing::EventLog;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr absl::Duration kInterval = absl::Milliseconds(50);

class CertificateWatchTest : public ::testing::Test {
 protected:
  void Start(absl::Duration interval = kInterval) {
    const auto served = LoadCertificate(folder_.files());
    ASSERT_TRUE(served.ok()) << served.status();
    credentials_ =
        std::make_unique<TlsCredentials>(*served, ClientCertificates::kRequire);
    CertificateWatch::Options options;
    options.interval = interval;
    watch_ = std::make_unique<CertificateWatch>(
        folder_.files(), *served, *credentials_, revocation_, options);
  }

  // Long enough for several looks.
  static void LetItLook() { absl::SleepFor(8 * kInterval); }

  CertificateAuthority ca_{"acme servers"};
  const CertificateAndKey first_ = ca_.Issue();
  const CertificateAndKey next_ = ca_.Issue();
  CertificateFolder folder_;
  EventLog log_;
  const int64_t reloads_ = ReadMetric(Metric::kCertificateReloads);
  const int64_t refusals_ = ReadMetric(Metric::kCertificateRefusals);
  Revocation revocation_;
  std::unique_ptr<TlsCredentials> credentials_;
  std::unique_ptr<CertificateWatch> watch_;
};

TEST_F(CertificateWatchTest, TellsWhatIsServedAtTheStart) {
  CertificateOptions options;
  options.not_after = absl::FromUnixSeconds(4000000000);
  const CertificateAndKey pair = ca_.Issue(options);
  folder_.WritePair(pair);
  Start();
  const Json event = log_.Await("certificate_loaded");
  EXPECT_EQ(event["serial"], pair.serial);
  EXPECT_EQ(event["not_after"], "2096-10-02T07:06:40+00:00");
  EXPECT_EQ(ReadMetric(Metric::kCertificateNotAfter), 4000000000);
  EXPECT_EQ(ReadMetric(Metric::kCertificateReloads), reloads_);
}

TEST_F(CertificateWatchTest, GoodPairIsTakenOnce) {
  folder_.WritePair(first_);
  Start();
  folder_.WritePair(next_);
  EXPECT_EQ(log_.Await("certificate_loaded", 2)["serial"], next_.serial);
  LetItLook();
  watch_->Stop();
  EXPECT_EQ(log_.Count("certificate_loaded"), 2);
  EXPECT_EQ(log_.Count("certificate_refused"), 0);
  EXPECT_EQ(ReadMetric(Metric::kCertificateReloads), reloads_ + 1);
}

TEST_F(CertificateWatchTest, SameContentsWrittenAgainAreNothingNew) {
  folder_.WritePair(first_);
  Start();
  unlink(folder_.files().key.c_str());
  folder_.WritePair(first_);
  LetItLook();
  watch_->Stop();
  EXPECT_EQ(log_.Count("certificate_loaded"), 1);
  EXPECT_EQ(log_.Count("certificate_refused"), 0);
}

TEST_F(CertificateWatchTest, BadPairIsToldOfOnce) {
  folder_.WritePair(first_);
  Start();
  folder_.WriteCertificate(next_.certificate_pem);
  const Json event = log_.Await("certificate_refused");
  EXPECT_EQ(event["severity"], "warning");
  EXPECT_THAT(std::string(event["message"]), HasSubstr("--tls-key-file \"/"));
  EXPECT_EQ(event["served_serial"], first_.serial);
  LetItLook();
  EXPECT_EQ(log_.Count("certificate_refused"), 1);
  EXPECT_EQ(ReadMetric(Metric::kCertificateRefusals), refusals_ + 1);
  // Other contents, also bad.
  folder_.WriteCertificate("");
  log_.Await("certificate_refused", 2);
  // And the way out.
  folder_.WritePair(next_);
  EXPECT_EQ(log_.Await("certificate_loaded", 2)["serial"], next_.serial);
  EXPECT_EQ(ReadMetric(Metric::kCertificateRefusals), refusals_ + 2);
}

TEST_F(CertificateWatchTest, PairWrittenInTwoStepsIsNotRefused) {
  folder_.WritePair(first_);
  Start(absl::Seconds(1));
  folder_.WriteCertificate(next_.certificate_pem);
  watch_->Poke();
  // It sees the new certificate with the old key now, and looks again in 1 s.
  absl::SleepFor(absl::Milliseconds(300));
  folder_.WriteKey(next_.key_pem);
  EXPECT_EQ(log_.Await("certificate_loaded", 2)["serial"], next_.serial);
  EXPECT_EQ(log_.Count("certificate_refused"), 0);
}

TEST_F(CertificateWatchTest, PokeMakesItLookNow) {
  folder_.WritePair(first_);
  Start(absl::Hours(1));
  folder_.WritePair(next_);
  watch_->Poke();
  EXPECT_EQ(log_.Await("certificate_loaded", 2)["serial"], next_.serial);
}

TEST_F(CertificateWatchTest, NotYetValidIsTakenWhenItsTimeComes) {
  folder_.WritePair(first_);
  Start();
  CertificateOptions options;
  options.not_before = absl::Now() + absl::Seconds(2);
  const CertificateAndKey early = ca_.Issue(options);
  folder_.WritePair(early);
  EXPECT_THAT(std::string(log_.Await("certificate_refused")["message"]),
              HasSubstr("is not valid before"));
  EXPECT_EQ(log_.Await("certificate_loaded", 2)["serial"], early.serial);
  EXPECT_EQ(log_.Count("certificate_refused"), 1);
}

TEST_F(CertificateWatchTest, ListsAreInForceFromTheStartAndReplaced) {
  const std::string shop = ca_.Issue().certificate_pem;
  folder_.WritePair(first_);
  folder_.WriteClientCa(ca_.certificate_pem());
  folder_.WriteClientCrl(ca_.Crl({shop}));
  Start();
  EXPECT_EQ(revocation_.Judge(shop, absl::Now()), CertificateVerdict::kRevoked);
  folder_.WriteClientCrl(ca_.Crl({}));
  log_.Await("certificate_loaded", 2);
  EXPECT_EQ(revocation_.Judge(shop, absl::Now()), CertificateVerdict::kGood);
  // A bad one takes nothing back.
  folder_.WriteClientCrl(CertificateAuthority("another").Crl({shop}));
  log_.Await("certificate_refused");
  EXPECT_EQ(revocation_.Judge(shop, absl::Now()), CertificateVerdict::kGood);
}

TEST_F(CertificateWatchTest, WarnsOfCertificateThatExpiresWithinAWeek) {
  CertificateOptions options;
  options.not_after = absl::Now() + absl::Hours(24 * 7 - 1);
  folder_.WritePair(ca_.Issue(options));
  Start();
  EXPECT_EQ(log_.Await("certificate_expires_soon")["severity"], "warning");
  LetItLook();
  EXPECT_EQ(log_.Count("certificate_expires_soon"), 1);
  folder_.WritePair(next_);
  log_.Await("certificate_loaded", 2);
  LetItLook();
  EXPECT_EQ(log_.Count("certificate_expires_soon"), 1);
}

TEST_F(CertificateWatchTest, TellsOfExpiredCertificateAndGoesOnServingIt) {
  CertificateOptions options;
  options.not_after = absl::Now() + absl::Seconds(2);
  folder_.WritePair(ca_.Issue(options));
  Start();
  EXPECT_EQ(log_.Await("certificate_expired")["severity"], "error");
  LetItLook();
  EXPECT_EQ(log_.Count("certificate_expired"), 1);
  EXPECT_EQ(log_.Count("certificate_refused"), 0);
}

TEST_F(CertificateWatchTest, WarnsOfListOutOfDate) {
  CrlOptions options;
  options.next_update = absl::Now() - absl::Hours(1);
  folder_.WritePair(first_);
  folder_.WriteClientCa(ca_.certificate_pem());
  folder_.WriteClientCrl(ca_.Crl({}, options));
  Start();
  EXPECT_EQ(log_.Await("revocation_list_out_of_date")["severity"], "warning");
}

TEST_F(CertificateWatchTest, WarnsOfReadableKey) {
  folder_.WritePair(first_);
  chmod(folder_.files().key.c_str(), 0644);
  Start();
  EXPECT_THAT(std::string(log_.Await("certificate_warning")["message"]),
              HasSubstr("can be read by others"));
}

TEST_F(CertificateWatchTest, StopsAtOnceWhateverItsInterval) {
  folder_.WritePair(first_);
  Start(absl::Hours(1));
  const absl::Time start = absl::Now();
  watch_->Stop();
  watch_->Stop();
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
}

}  // namespace
}  // namespace dedupe
