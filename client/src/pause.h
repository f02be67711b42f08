// The pauses between the sendings of one call.
#ifndef DEDUPE_CLIENT_SRC_PAUSE_H_
#define DEDUPE_CLIENT_SRC_PAUSE_H_

#include <chrono>
#include <stop_token>

#include "absl/random/bit_gen_ref.h"
#include "absl/time/time.h"

namespace dedupe::client {

// Waits and deadlines here are of this clock. Abseil's own waits end at a time
// of the machine's clock, so that setting it would stretch or cut them; hence
// the standard library's in this library, and no absl::Mutex where there is
// something to wait for.
using SteadyClock = std::chrono::steady_clock;

inline SteadyClock::duration ToSteady(absl::Duration duration) {
  return std::chrono::duration_cast<SteadyClock::duration>(
      absl::ToChronoNanoseconds(duration));
}

// "Full jitter": before the n-th repetition, a random time below
// first * 2^(n-1), itself not above greatest. n counts from 1.
absl::Duration Jittered(absl::Duration first, absl::Duration greatest, int n,
                        absl::BitGenRef random);

// False if it was asked to stop before that moment.
bool PauseUntil(SteadyClock::time_point moment, const std::stop_token& stop);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_PAUSE_H_
