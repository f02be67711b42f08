#include "server/service/usage_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/service/reason.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

using std::chrono::steady_clock;

constexpr absl::Duration kStopPoll = absl::Milliseconds(50);

// Without those whose records another one counts as well.
std::vector<std::string> Disjoint(const std::vector<std::string>& patterns) {
  // What covers another one comes before it: its prefix is shorter, or as long
  // and no whole id.
  std::vector<std::string> sorted = patterns;
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](absl::string_view left, absl::string_view right) {
        const bool left_is_prefix = absl::ConsumeSuffix(&left, "*");
        const bool right_is_prefix = absl::ConsumeSuffix(&right, "*");
        return std::pair(left.size(), !left_is_prefix) <
               std::pair(right.size(), !right_is_prefix);
      });
  std::vector<std::string> counted;
  for (const std::string& pattern : sorted) {
    absl::string_view prefix = pattern;
    const bool is_prefix = absl::ConsumeSuffix(&prefix, "*");
    const bool is_covered = std::any_of(
        counted.begin(), counted.end(), [&](absl::string_view other) {
          if (other == pattern) return true;
          return absl::ConsumeSuffix(&other, "*") &&
                 absl::StartsWith(is_prefix ? prefix : pattern, other);
        });
    if (!is_covered) counted.push_back(pattern);
  }
  return counted;
}

bool IsCounted(const Quota& quota) {
  return quota.live_keys_max.has_value() || quota.stored_bytes_max.has_value();
}

}  // namespace

UsageWatch::UsageWatch(const AccessWatch& access, Measure measure,
                       Options options)
    : access_(access), measure_(std::move(measure)), options_(options) {
  thread_ = std::thread([this] { Run(); });
}

UsageWatch::~UsageWatch() { Stop(); }

void UsageWatch::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void UsageWatch::Run() {
  while (!stopping_) {
    const auto began = steady_clock::now();
    for (const Caller& caller : access_.Callers()) {
      if (stopping_) return;
      if (IsCounted(caller.principal->quota)) MeasureCaller(caller);
    }
    const absl::Duration took = absl::FromChrono(steady_clock::now() - began);
    Sleep(std::max(options_.interval, 19 * took));
  }
}

void UsageWatch::MeasureCaller(const Caller& caller) {
  caller.use->StartMeasurement();
  QuotaUse::Measurement sum;
  for (const std::string& pattern : Disjoint(caller.principal->client_ids)) {
    const auto counted = CountPattern(pattern);
    if (!counted.has_value()) return;
    sum.live_keys += counted->live_keys;
    sum.stored_bytes += counted->stored_bytes;
  }
  caller.use->FinishMeasurement(sum);
}

std::optional<QuotaUse::Measurement> UsageWatch::CountPattern(
    const std::string& pattern) {
  QuotaUse::Measurement sum;
  UsageCommand command{.pattern = pattern, .row_limit = options_.row_limit};
  while (!stopping_) {
    auto answer = measure_(command);
    if (!answer.ok()) {
      Log(Severity::kWarning, "usage_not_counted",
          {{"reason", std::string(ReasonName(ReasonOf(answer.status())))}});
      return std::nullopt;
    }
    sum.live_keys += answer->live_keys;
    sum.stored_bytes += answer->stored_bytes;
    if (answer->rows < options_.row_limit) return sum;
    command.after_client_id = std::move(answer->last_client_id);
    command.after_key = std::move(answer->last_key);
  }
  return std::nullopt;
}

void UsageWatch::Sleep(absl::Duration duration) const {
  const auto until = steady_clock::now() + absl::ToChronoNanoseconds(duration);
  while (!stopping_ && steady_clock::now() < until) {
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(kStopPoll));
  }
}

}  // namespace dedupe
