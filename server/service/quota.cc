#include "server/service/quota.h"

#include <algorithm>
#include <chrono>

#include "server/service/reason.h"

namespace dedupe {

absl::Status QuotaUse::Enter(const Quota& quota, SteadyTime now) {
  absl::MutexLock lock(&mutex_);
  if (quota.calls_in_flight_max.has_value() &&
      calls_in_flight_ >= *quota.calls_in_flight_max) {
    return Refusal(Reason::kQuota, "calls_in_flight");
  }
  if (quota.calls_per_second_max.has_value()) {
    const auto rate = static_cast<double>(*quota.calls_per_second_max);
    // Calls may come here in another order than they began in.
    const SteadyTime moment = std::max(now, calls_left_at_);
    const std::chrono::duration<double> passed = moment - calls_left_at_;
    calls_left_ =
        std::min(rate, calls_left_.value_or(rate) + passed.count() * rate);
    calls_left_at_ = moment;
    if (*calls_left_ < 1) return Refusal(Reason::kQuota, "calls_per_second");
    --*calls_left_;
  }
  ++calls_in_flight_;
  return absl::OkStatus();
}

void QuotaUse::Leave() {
  absl::MutexLock lock(&mutex_);
  --calls_in_flight_;
}

absl::Status QuotaUse::StartBegin(const Quota& quota) {
  absl::MutexLock lock(&mutex_);
  if (quota.live_keys_max.has_value() &&
      measured_.live_keys + added_.live_keys + begins_ >=
          *quota.live_keys_max) {
    return Refusal(Reason::kQuota, "live_keys");
  }
  if (quota.stored_bytes_max.has_value() &&
      measured_.stored_bytes + added_.stored_bytes >= *quota.stored_bytes_max) {
    return Refusal(Reason::kQuota, "stored_bytes");
  }
  ++begins_;
  return absl::OkStatus();
}

void QuotaUse::FinishBegin(Outcome outcome) {
  absl::MutexLock lock(&mutex_);
  --begins_;
  if (outcome == Outcome::kNewRecord) ++added_.live_keys;
}

void QuotaUse::AddStoredBytes(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  added_.stored_bytes += bytes;
}

void QuotaUse::StartMeasurement() {
  absl::MutexLock lock(&mutex_);
  measured_ = {measured_.live_keys + added_.live_keys,
               measured_.stored_bytes + added_.stored_bytes};
  added_ = {};
}

void QuotaUse::FinishMeasurement(const Measurement& measured) {
  absl::MutexLock lock(&mutex_);
  measured_ = measured;
}

}  // namespace dedupe
