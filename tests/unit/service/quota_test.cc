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

// A Begin that comes to nothing.
absl::Status MayCreate(QuotaUse& use, const Quota& quota) {
  absl::Status status = use.StartBegin(quota);
  if (status.ok()) use.FinishBegin(QuotaUse::Outcome::kNone);
  return status;
}

void AddLiveKey(QuotaUse& use) {
  EXPECT_TRUE(use.StartBegin({}).ok());
  use.FinishBegin(QuotaUse::Outcome::kNewRecord);
}

TEST(QuotaTest, NothingIsRefusedWithoutAQuota) {
  QuotaUse use;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(use.Enter({}, kStart).ok());
    AddLiveKey(use);
    use.AddStoredBytes(1 << 30);
  }
  EXPECT_TRUE(MayCreate(use, {}).ok());
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

// A call reads the clock before it is its turn: a late one with an early time
// once filled the quota anew.
TEST(QuotaTest, CallsOutOfOrderGetNoMore) {
  const Quota quota{.calls_per_second_max = 100};
  QuotaUse use;
  int heard = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 200; ++i) heard += use.Enter(quota, kStart).ok();
    heard += use.Enter(quota, kStart - milliseconds(1)).ok();
  }
  EXPECT_EQ(heard, 100);
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
  EXPECT_TRUE(MayCreate(use, quota).ok());
  AddLiveKey(use);
  EXPECT_THAT(MayCreate(use, quota), IsQuota("live_keys"));
}

TEST(QuotaTest, BeginsUnderWayCountAsKeys) {
  const Quota quota{.live_keys_max = 2};
  QuotaUse use;
  EXPECT_TRUE(use.StartBegin(quota).ok());
  EXPECT_TRUE(use.StartBegin(quota).ok());
  EXPECT_THAT(use.StartBegin(quota), IsQuota("live_keys"));
  use.FinishBegin(QuotaUse::Outcome::kNone);
  EXPECT_TRUE(use.StartBegin(quota).ok());
  use.FinishBegin(QuotaUse::Outcome::kNewRecord);
  EXPECT_THAT(use.StartBegin(quota), IsQuota("live_keys"));
}

TEST(QuotaTest, StoredBytesRefuseNewKeysAtTheQuota) {
  const Quota quota{.stored_bytes_max = 1000};
  QuotaUse use;
  use.AddStoredBytes(999);
  EXPECT_TRUE(MayCreate(use, quota).ok());
  use.AddStoredBytes(1);
  EXPECT_THAT(MayCreate(use, quota), IsQuota("stored_bytes"));
}

TEST(QuotaTest, MeasurementCorrectsWhatWasAddedBefore) {
  const Quota quota{.live_keys_max = 3};
  QuotaUse use;
  for (int i = 0; i < 3; ++i) AddLiveKey(use);
  EXPECT_THAT(MayCreate(use, quota), IsQuota("live_keys"));
  use.StartMeasurement();
  EXPECT_THAT(MayCreate(use, quota), IsQuota("live_keys"));
  // Two of them have expired.
  use.FinishMeasurement({.live_keys = 1});
  EXPECT_TRUE(MayCreate(use, quota).ok());
}

// The count may have missed it.
TEST(QuotaTest, WhatIsAddedDuringAMeasurementCountsOnTop) {
  const Quota quota{.live_keys_max = 3};
  QuotaUse use;
  use.StartMeasurement();
  AddLiveKey(use);
  use.FinishMeasurement({.live_keys = 2});
  EXPECT_THAT(MayCreate(use, quota), IsQuota("live_keys"));
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
