#include "client/src/pause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/random/random.h"

namespace dedupe::client {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Lt;

constexpr absl::Duration kFirst = absl::Milliseconds(50);
constexpr absl::Duration kGreatest = absl::Seconds(2);

TEST(JitteredTest, BoundDoublesUpToTheGreatest) {
  absl::BitGen random;
  const absl::Duration bounds[] = {kFirst,     kFirst * 2,  kFirst * 4,
                                   kFirst * 8, kFirst * 16, kFirst * 32,
                                   kGreatest,  kGreatest};
  int n = 0;
  for (const absl::Duration bound : bounds) {
    ++n;
    absl::Duration longest = absl::ZeroDuration();
    absl::Duration shortest = absl::InfiniteDuration();
    for (int i = 0; i < 2000; ++i) {
      const absl::Duration pause = Jittered(kFirst, kGreatest, n, random);
      ASSERT_THAT(pause, AllOf(Ge(absl::ZeroDuration()), Lt(bound)));
      longest = std::max(longest, pause);
      shortest = std::min(shortest, pause);
    }
    // The whole range is used.
    EXPECT_GT(longest, bound * 0.95) << n;
    EXPECT_LT(shortest, bound * 0.05) << n;
  }
}

TEST(JitteredTest, ManyRepetitionsDoNotOverflow) {
  absl::BitGen random;
  for (const int n : {0, -1, 21, 63, 64, 1'000'000}) {
    EXPECT_THAT(Jittered(kFirst, kGreatest, n, random),
                AllOf(Ge(absl::ZeroDuration()), Lt(kGreatest)));
  }
}

TEST(PauseUntilTest, EndsAtItsTimeOrWhenAskedToStop) {
  std::stop_source stop;
  const auto start = SteadyClock::now();
  EXPECT_TRUE(PauseUntil(start + ToSteady(kFirst), stop.get_token()));
  EXPECT_GE(absl::FromChrono(SteadyClock::now() - start), kFirst);
  std::thread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(
      PauseUntil(start + ToSteady(absl::Seconds(30)), stop.get_token()));
  stopper.join();
  EXPECT_LE(absl::FromChrono(SteadyClock::now() - start), absl::Seconds(10));
}

TEST(PauseUntilTest, WhatNobodyCanStopWaitsItsTime) {
  const auto start = SteadyClock::now();
  EXPECT_TRUE(PauseUntil(start + ToSteady(kFirst), std::stop_token()));
  EXPECT_GE(absl::FromChrono(SteadyClock::now() - start), kFirst);
}

}  // namespace
}  // namespace dedupe::client
