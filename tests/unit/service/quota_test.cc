// Quotas: what is counted in and out, what comes back with time, what refuses
// new keys.
#include "server/service/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "server/service/reason.h"

namespace dedupe {
namespace {

using std::chrono::milliseconds;

const SteadyTime kStart = SteadyTime() + std::chrono::hours(1);

MATCHER_P(IsQuota, name, "") {
  return ReasonOf(arg) == Reason::kQuota && FieldOf(arg) == name;
}

TEST(QuotaTest, NothingIsRefusedWithoutAQuota) {
  QuotaUse use;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(use.Enter({}, kStart).ok());
    use.AddLiveKey();
    use.AddStoredBytes(1 << 30);
  }
  EXPECT_TRUE(use.MayCreate({}).ok());
}

TEST(QuotaTest, CallsInFlightAreCountedOut) {
  const Quota quota{.calls_in_flight_max = 2};
  QuotaUse use;
  EXPECT_TRUE(use.Enter(quota, kStart).ok());
  EXPECT_TRUE(use.Enter(quota, kStart).ok());
  EXPECT_THAT(use.Enter(quota, kStart), IsQuota("calls_in_flight"));
  use.Leave();
  EXPECT_TRUE(use.Enter(quota, kStart).ok());
  EXPECT_THAT(use.Enter(quota, kStart), IsQuota("calls_in_flight"));
}

TEST(QuotaTest, CallsPerSecondComeBackWithTime) {
  const Quota quota{.calls_per_second_max = 10};
  QuotaUse use;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(use.Enter(quota, kStart).ok()) << i;
  EXPECT_THAT(use.Enter(quota, kStart), IsQuota("calls_per_second"));
  EXPECT_THAT(use.Enter(quota, kStart + milliseconds(90)),
              IsQuota("calls_per_second"));
  EXPECT_TRUE(use.Enter(quota, kStart + milliseconds(110)).ok());
  EXPECT_THAT(use.Enter(quota, kStart + milliseconds(110)),
              IsQuota("calls_per_second"));
}

// A long silence is no licence for a flood.
TEST(QuotaTest, NoMoreThanASecondsCallsAreSavedUp) {
  const Quota quota{.calls_per_second_max = 10};
  QuotaUse use;
  EXPECT_TRUE(use.Enter(quota, kStart).ok());
  const SteadyTime later = kStart + std::chrono::hours(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(use.Enter(quota, later).ok()) << i;
  EXPECT_THAT(use.Enter(quota, later), IsQuota("calls_per_second"));
}

TEST(QuotaTest, RefusedCallUsesNothingUp) {
  const Quota quota{.calls_in_flight_max = 1, .calls_per_second_max = 2};
  QuotaUse use;
  EXPECT_TRUE(use.Enter(quota, kStart).ok());
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(use.Enter(quota, kStart), IsQuota("calls_in_flight"));
  }
  use.Leave();
  EXPECT_TRUE(use.Enter(quota, kStart).ok());
}

TEST(QuotaTest, NewQuotaCountsFromTheNextCall) {
  QuotaUse use;
  EXPECT_TRUE(use.Enter({.calls_per_second_max = 1}, kStart).ok());
  EXPECT_THAT(use.Enter({.calls_per_second_max = 1}, kStart),
              IsQuota("calls_per_second"));
  EXPECT_TRUE(use.Enter({}, kStart).ok());
}

TEST(QuotaTest, LiveKeysRefuseNewOnesAtTheQuota) {
  const Quota quota{.live_keys_max = 3};
  QuotaUse use;
  use.StartMeasurement();
  use.FinishMeasurement({.live_keys = 2});
  EXPECT_TRUE(use.MayCreate(quota).ok());
  use.AddLiveKey();
  EXPECT_THAT(use.MayCreate(quota), IsQuota("live_keys"));
}

TEST(QuotaTest, StoredBytesRefuseNewKeysAtTheQuota) {
  const Quota quota{.stored_bytes_max = 1000};
  QuotaUse use;
  use.AddStoredBytes(999);
  EXPECT_TRUE(use.MayCreate(quota).ok());
  use.AddStoredBytes(1);
  EXPECT_THAT(use.MayCreate(quota), IsQuota("stored_bytes"));
}

TEST(QuotaTest, MeasurementCorrectsWhatWasAddedBefore) {
  const Quota quota{.live_keys_max = 3};
  QuotaUse use;
  for (int i = 0; i < 3; ++i) use.AddLiveKey();
  EXPECT_THAT(use.MayCreate(quota), IsQuota("live_keys"));
  use.StartMeasurement();
  EXPECT_THAT(use.MayCreate(quota), IsQuota("live_keys"));
  // Two of them have expired.
  use.FinishMeasurement({.live_keys = 1});
  EXPECT_TRUE(use.MayCreate(quota).ok());
}

// The count may have missed it.
TEST(QuotaTest, WhatIsAddedDuringAMeasurementCountsOnTop) {
  const Quota quota{.live_keys_max = 3};
  QuotaUse use;
  use.StartMeasurement();
  use.AddLiveKey();
  use.FinishMeasurement({.live_keys = 2});
  EXPECT_THAT(use.MayCreate(quota), IsQuota("live_keys"));
}

TEST(QuotaTest, ManyThreadsNeverPassTheQuota) {
  const Quota quota{.calls_in_flight_max = 5};
  QuotaUse use;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5000; ++round) {
        if (!use.Enter(quota, kStart).ok()) continue;
        const int now = ++inside;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --inside;
        use.Leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 5);
  EXPECT_GT(most, 0);
}

}  // namespace
}  // namespace dedupe
