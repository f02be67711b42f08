#include "server/tls/certificate_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace dedupe {
namespace {

// Longer than it takes to write four files one after the other.
constexpr absl::Duration kSettle = absl::Seconds(1);
// Time enough to act in working days.
constexpr absl::Duration kExpiresSoon = absl::Hours(7 * 24);
constexpr absl::Duration kTellAgainAfter = absl::Hours(24);

std::string At(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

}  // namespace

CertificateWatch::CertificateWatch(CertificateFiles files,
                                   LoadedCertificate served,
                                   TlsCredentials& credentials,
                                   Revocation& revocation, Options options)
    : files_(std::move(files)),
      credentials_(credentials),
      revocation_(revocation),
      options_(options),
      served_(std::move(served)) {
  PutInForce();
  thread_ = std::thread([this] { Run(); });
}

CertificateWatch::~CertificateWatch() { Stop(); }

void CertificateWatch::Poke() {
  absl::MutexLock lock(&mutex_);
  poked_ = true;
}

void CertificateWatch::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void CertificateWatch::Run() {
  bool going_on = true;
  while (going_on) {
    TellOfAge(absl::Now());
    going_on =
        unsettled_digest_.empty()
            ? Sleep(options_.interval, WakeUp::kAtPoke)
            : Sleep(std::min(options_.interval, kSettle), WakeUp::kInTimeOnly);
    if (going_on) Look();
  }
}

void CertificateWatch::Look() {
  const CertificateContents contents = ReadCertificateFiles(files_);
  const std::string digest = contents.Digest();
  if (digest == served_.digest) {
    unsettled_digest_.clear();
    refused_digest_.clear();
    return;
  }
  if (digest != unsettled_digest_ && digest != refused_digest_) {
    unsettled_digest_ = digest;
    return;
  }
  unsettled_digest_.clear();
  // Judged anew each time, because what is not valid yet may become so.
  auto loaded = JudgeCertificate(contents, absl::Now());
  if (!loaded.ok()) return Refuse(digest, loaded.status().message());
  served_ = *std::move(loaded);
  refused_digest_.clear();
  PutInForce();
  Count(Metric::kCertificateReloads);
}

void CertificateWatch::PutInForce() {
  // The lists first: never a new CA without what it has revoked.
  revocation_.Replace(served_.client_crl_pem, served_.client_ca_pem);
  credentials_.Replace(served_);
  soon_told_at_ = expired_told_at_ = list_told_at_ = absl::InfinitePast();
  SetGauge(Metric::kCertificateNotAfter,
           absl::ToUnixSeconds(served_.not_after));
  Log(Severity::kInfo, "certificate_loaded",
      {{"serial", served_.serial}, {"not_after", At(served_.not_after)}});
  for (const std::string& warning : served_.warnings) {
    Log(Severity::kWarning, "certificate_warning", {{"message", warning}});
  }
}

void CertificateWatch::Refuse(const std::string& digest,
                              absl::string_view message) {
  if (digest == refused_digest_) return;
  refused_digest_ = digest;
  Count(Metric::kCertificateRefusals);
  Log(Severity::kWarning, "certificate_refused",
      {{"message", std::string(message)}, {"served_serial", served_.serial}});
}

void CertificateWatch::TellOfAge(absl::Time now) {
  const bool expired = served_.not_after <= now;
  if (expired && now - expired_told_at_ >= kTellAgainAfter) {
    expired_told_at_ = now;
    Log(Severity::kError, "certificate_expired",
        {{"serial", served_.serial}, {"not_after", At(served_.not_after)}});
  }
  const bool soon = !expired && served_.not_after - now < kExpiresSoon;
  if (soon && now - soon_told_at_ >= kTellAgainAfter) {
    soon_told_at_ = now;
    Log(Severity::kWarning, "certificate_expires_soon",
        {{"serial", served_.serial}, {"not_after", At(served_.not_after)}});
  }
  const bool list_is_old = served_.crl_next_update <= now;
  if (list_is_old && now - list_told_at_ >= kTellAgainAfter) {
    list_told_at_ = now;
    Log(Severity::kWarning, "revocation_list_out_of_date",
        {{"next_update", At(served_.crl_next_update)}});
  }
}

bool CertificateWatch::Sleep(absl::Duration duration, WakeUp wake_up) {
  const auto is_over = [this, wake_up] {
    mutex_.AssertReaderHeld();
    return stopping_ || (poked_ && wake_up == WakeUp::kAtPoke);
  };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&is_over), duration);
  if (wake_up == WakeUp::kAtPoke) poked_ = false;
  return !stopping_;
}

}  // namespace dedupe
