#include "client/src/pause.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/random/distributions.h"

namespace dedupe::client {
namespace {

// 2^20 times any first pause is above any greatest one.
constexpr int kDoublingsMax = 20;

}  // namespace

absl::Duration Jittered(absl::Duration first, absl::Duration greatest, int n,
                        absl::BitGenRef random) {
  const int doublings = std::clamp(n - 1, 0, kDoublingsMax);
  const absl::Duration bound = std::min(greatest, first * (1 << doublings));
  return absl::Seconds(
      absl::Uniform(random, 0.0, absl::ToDoubleSeconds(bound)));
}

bool PauseUntil(SteadyClock::time_point moment, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  return !stopped.wait_until(lock, stop, moment,
                             [&] { return stop.stop_requested(); });
}

}  // namespace dedupe::client
