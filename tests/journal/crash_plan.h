// What the crash test and the process that it kills agree on. Each round has a
// day and vessels of its own, which the rounds after it use too for a while.
// Then they are left alone, and the settled ones age: no vessel is ever used
// again after that, so that a second key for one is always an error.
#ifndef DEDUPE_TESTS_JOURNAL_CRASH_PLAN_H_
#define DEDUPE_TESTS_JOURNAL_CRASH_PLAN_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "dedupe/journal.h"

namespace dedupe::client {

inline constexpr int kCrashThreads = 8;
inline constexpr int kVesselsOfARound = 40;
inline constexpr int kRoundsOfAVessel = 3;

inline std::string CrashVessel(int round, int number) {
  return absl::StrCat("checkout-", round, "-", number);
}

// Never settled, and so to be found in every later round.
inline bool StaysPending(int round, int number) {
  return number == 0 && round % 4 == 0;
}

inline JournalOptions CrashOptions(int round) {
  JournalOptions options;
  options.keep_settled = absl::Hours(24 * (kRoundsOfAVessel + 1));
  options.now = [round] {
    return absl::FromUnixSeconds(1'700'000'000) + absl::Hours(24 * round);
  };
  return options;
}

}  // namespace dedupe::client

#endif  // DEDUPE_TESTS_JOURNAL_CRASH_PLAN_H_
