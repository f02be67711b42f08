// The reaper: everything that is past its window goes in the end, in small
// portions, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/service/reaper.h"
#include "server/store/postgres_store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"
#include "tests/store/session.h"
#include "tests/support/builders.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/test_clock.h"

namespace dedupe::testing {
namespace {

class ReapDatabase : public ::testing::Test {
 protected:
  ReapDatabase()
      : database_(PostgresCluster::Shared().CreateMigratedDatabase()),
        url_(PostgresCluster::Shared().Url(database_)),
        admin_(url_),
        store_({.database_url =
                    PostgresCluster::Shared().Url(database_, "dedupe_server")}),
        calls_(store_) {}

  int Rows() {
    return std::stoi(admin_.Value("SELECT count(*) FROM dedupe.record"));
  }

  static std::string Key(int number) { return absl::StrCat("k", number); }

  const std::string database_;
  const std::string url_;
  Session admin_;
  PostgresStore store_;
  BlockingStore calls_;
};

// Time stands still but for the clock's advances.
class ReapTest : public ReapDatabase {
 protected:
  ReapTest() : clock_(url_, absl::FromUnixSeconds(1'700'000'000)) {}

  int64_t Begin(int key, absl::Duration ttl,
                OnLeaseExpiry policy = OnLeaseExpiry::kTakeover) {
    BeginCommand begin = MakeBegin(Key(key), "a1");
    begin.ttl = ttl;
    begin.on_lease_expiry = policy;
    return Get<Started>(calls_.Begin(begin)).fence;
  }

  ReapAnswer Reap(int rows, std::optional<absl::Time> latest = std::nullopt) {
    const auto answer = calls_.Reap({.row_limit = rows, .latest = latest});
    EXPECT_THAT(answer, IsOk());
    return answer.ok() ? *answer : ReapAnswer();
  }

  TestClock clock_;
};

TEST_F(ReapTest, KeysThatNeverComeBackAreDeleted) {
  constexpr int kKeys = 1000;
  for (int key = 0; key < kKeys; ++key) {
    const int64_t fence = Begin(key, absl::Seconds(1));
    if (key % 3 == 1) {
      ASSERT_THAT(
          calls_.Complete(MakeComplete(MakeBegin(Key(key), "a1"), fence)),
          IsOk());
    } else if (key % 3 == 2) {
      ASSERT_THAT(calls_.Release(MakeRelease(MakeBegin(Key(key), "a1"), fence)),
                  IsOk());
    }
  }
  EXPECT_EQ(Reap(kKeys).deleted, 0);
  // Past every window, and past the second in which the reaper looks.
  clock_.Advance(absl::Seconds(33));
  int deleted = 0;
  ReapAnswer answer;
  do {
    answer = Reap(300);
    EXPECT_LE(answer.examined, 300);
    deleted += answer.deleted;
  } while (answer.examined == 300);
  EXPECT_EQ(deleted, kKeys);
  EXPECT_EQ(Rows(), 0);
}

TEST_F(ReapTest, LagIsThatOfTheOldest) {
  Begin(1, absl::Seconds(1));
  clock_.Advance(absl::Hours(1));
  const ReapAnswer answer = Reap(10);
  EXPECT_EQ(answer.decided_at, clock_.Now());
  EXPECT_EQ(answer.deleted, 1);
  EXPECT_GT(answer.lag, absl::Minutes(59));
  EXPECT_LT(answer.lag, absl::Hours(1));
  EXPECT_EQ(Reap(10).lag, absl::ZeroDuration());
}

// When a row is looked at is a guess made when the key was first seen.
TEST_F(ReapTest, RecordThatLivesLongerThanGuessedStays) {
  const int64_t fence = Begin(1, absl::Seconds(10));
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Seconds(25));
    ASSERT_THAT(calls_.Extend(MakeExtend(MakeBegin(Key(1), "a1"), fence)),
                IsOk());
    EXPECT_EQ(Reap(10).deleted, 0);
  }
  ASSERT_THAT(calls_.Complete(MakeComplete(MakeBegin(Key(1), "a1"), fence)),
              IsOk());
  clock_.Advance(absl::Seconds(10) - absl::Microseconds(1));
  EXPECT_EQ(Reap(10).deleted, 0);
  EXPECT_TRUE(Is<Replay>(calls_.Begin(MakeBegin(Key(1), "a2"))));
  // It was put off to when it ends, give or take the second.
  clock_.Advance(absl::Seconds(41));
  Reap(10);
  EXPECT_EQ(Rows(), 0);
}

TEST_F(ReapTest, RecordsInDoubtAreNeverDeleted) {
  const int64_t fence = Begin(1, absl::Milliseconds(100), OnLeaseExpiry::kHold);
  clock_.Advance(absl::Hours(24 * 400));
  const ReapAnswer first = Reap(10);
  EXPECT_EQ(first.examined, 1);
  EXPECT_EQ(first.deleted, 0);
  // Nor looked at again and again.
  EXPECT_EQ(Reap(10).examined, 0);
  EXPECT_TRUE(Is<InDoubt>(calls_.Begin(MakeBegin(Key(1), "a2"))));
  // Once resolved they end like any other.
  ASSERT_THAT(calls_.Release(MakeRelease(MakeBegin(Key(1), "a1"), fence)),
              IsOk());
  clock_.Advance(absl::Hours(2));
  EXPECT_EQ(Reap(10).deleted, 1);
}

TEST_F(ReapTest, LockedRowsArePassedOver) {
  for (int key = 0; key < 20; ++key) Begin(key, absl::Seconds(1));
  clock_.Advance(absl::Hours(1));
  Session rival(url_);
  rival.Run(
      "BEGIN; SELECT FROM dedupe.record WHERE key IN ('k3', 'k7') FOR UPDATE");
  EXPECT_EQ(Reap(100).deleted, 18);
  EXPECT_EQ(Rows(), 2);
  rival.Run("ROLLBACK");
  EXPECT_EQ(Reap(100).deleted, 2);
}

TEST_F(ReapTest, ClockPastBeliefDeletesNothing) {
  Begin(1, absl::Seconds(1));
  const absl::Time believable = clock_.Now() + absl::Hours(1);
  clock_.Advance(absl::Hours(1) + absl::Microseconds(1));
  const ReapAnswer refused = Reap(10, believable);
  EXPECT_TRUE(refused.clock_refused);
  EXPECT_EQ(refused.examined, 0);
  EXPECT_EQ(refused.decided_at, clock_.Now());
  EXPECT_EQ(Rows(), 1);
  clock_.Set(believable);
  const ReapAnswer answer = Reap(10, believable);
  EXPECT_FALSE(answer.clock_refused);
  EXPECT_EQ(answer.deleted, 1);
}

TEST_F(ReapTest, NoRowsMeansOnlyTheClock) {
  Begin(1, absl::Seconds(1));
  clock_.Advance(absl::Hours(1));
  const ReapAnswer answer = Reap(0);
  EXPECT_EQ(answer.examined, 0);
  EXPECT_EQ(answer.decided_at, clock_.Now());
  EXPECT_EQ(Rows(), 1);
}

// The bug: a swept row took its fence with it, and the clock alone gave the
// next one, which had been set back since.
TEST_F(ReapTest, FenceGrowsThoughTheClockGoesBackAfterASweep) {
  const int64_t old_fence = Begin(1, absl::Milliseconds(100));
  const absl::Time began = clock_.Now();
  clock_.Advance(absl::Hours(1));
  ASSERT_EQ(Reap(10).deleted, 1);
  clock_.Set(began - absl::Hours(2));
  EXPECT_GT(Begin(1, absl::Seconds(1)), old_fence);
}

// The reaper at work, on the database's own clock.
class ReaperTest : public ReapDatabase {
 protected:
  // That many records, expired since the hour before.
  void InsertExpired(int count) {
    ASSERT_EQ(
        admin_
            .Run(absl::StrCat(
                "INSERT INTO dedupe.record (client_id, key, operation,"
                " fingerprint, state, on_lease_expiry, attempt_id,"
                " attempt_number, taken_over, fence, ttl_us, created_at,"
                " started_at, lease_expires_at, expires_at, reap_after)"
                " SELECT 'old', 'k' || i, '', '\\x01', 'in_progress',"
                " 'takeover', 'a', 1, false, i, 100000, t, t, t, t, t FROM"
                " generate_series(1, ",
                count,
                ") AS i, (SELECT now() - interval '1 hour' AS t) AS past"))
            .sqlstate,
        "");
  }

  bool WaitForRows(int rows, absl::Duration limit) {
    const absl::Time until = absl::Now() + limit;
    while (absl::Now() < until) {
      if (Rows() <= rows) return true;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return false;
  }

  absl::Duration TimedBegin(const std::string& key) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(Is<Started>(calls_.Begin(MakeBegin(key, "a1"))));
    return absl::FromChrono(std::chrono::steady_clock::now() - start);
  }
};

TEST_F(ReaperTest, LargeBacklogGoesInPortionsBesideTheCalls) {
  constexpr int kBacklog = 50'000;
  InsertExpired(kBacklog);
  Reaper reaper(store_,
                {.interval = absl::Milliseconds(200), .batch_rows_max = 500});
  std::vector<absl::Duration> times;
  const absl::Time until = absl::Now() + absl::Seconds(60);
  for (int i = 0; absl::Now() < until; ++i) {
    times.push_back(TimedBegin(Key(i)));
    absl::SleepFor(absl::Milliseconds(20));
    if (i % 10 == 0 &&
        admin_.Value("SELECT count(*) FROM dedupe.record WHERE client_id ="
                     " 'old'") == "0") {
      break;
    }
  }
  reaper.Stop();
  std::sort(times.begin(), times.end());
  const absl::Duration p90 = times[times.size() * 90 / 100];
  std::printf("%zu Begins beside the reaper, p90 %s, p99 %s\n", times.size(),
              absl::FormatDuration(p90).c_str(),
              absl::FormatDuration(times[times.size() * 99 / 100]).c_str());
  EXPECT_EQ(admin_.Value("SELECT count(*) FROM dedupe.record WHERE client_id"
                         " = 'old'"),
            "0");
  // 50 ms are promised on a machine that has nothing else to do; the slowest
  // tenth is left to whatever else this one does.
  EXPECT_LT(p90, absl::Milliseconds(100));
}

TEST_F(ReaperTest, TableStaysSmallUnderLoad) {
  Reaper reaper(store_,
                {.interval = absl::Milliseconds(200), .batch_rows_max = 500});
  constexpr absl::Duration kTtl = absl::Seconds(1);
  const absl::Time start = absl::Now();
  int pairs = 0;
  int most = 0;
  while (absl::Now() < start + absl::Seconds(8)) {
    BeginCommand begin = MakeBegin(Key(pairs++), "a1");
    begin.lease = kTtl;
    begin.ttl = kTtl;
    const int64_t fence = Get<Started>(calls_.Begin(begin)).fence;
    ASSERT_THAT(calls_.Complete(MakeComplete(begin, fence)), IsOk());
    if (pairs % 20 == 0) most = std::max(most, Rows());
    absl::SleepFor(absl::Milliseconds(4));
  }
  // What is born within the ttl, the second that the guess may be too late, the
  // whole second it is rounded to and the pause; twice that, as room.
  const double per_second = pairs / absl::ToDoubleSeconds(absl::Now() - start);
  std::printf("%.0f pairs/s, at most %d rows\n", per_second, most);
  EXPECT_LT(most, 2 * per_second * 3.2);
  EXPECT_GT(pairs, 2 * most);
  EXPECT_TRUE(WaitForRows(0, absl::Seconds(10)));
}

TEST_F(ReaperTest, ClockThatJumpsAheadDeletesNothingForAWhile) {
  TestClock clock(url_, absl::Now());
  ASSERT_THAT(calls_.Begin(MakeBegin("k", "a1")), IsOk());
  Reaper reaper(store_, {.interval = absl::Milliseconds(20),
                         .batch_rows_max = 500,
                         .distrust = absl::Seconds(2)});
  // It has to have read the clock before.
  absl::SleepFor(absl::Milliseconds(300));
  clock.Advance(absl::Hours(25));
  absl::SleepFor(absl::Seconds(1));
  EXPECT_EQ(Rows(), 1);
  // In the end the new time is taken for the true one.
  EXPECT_TRUE(WaitForRows(0, absl::Seconds(10)));
}

TEST_F(ReaperTest, TableIsSetUpForRowsThatComeAndGo) {
  const std::string options = admin_.Value(
      "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid ="
      " 'dedupe.record'::regclass");
  for (const char* option : {"fillfactor=", "autovacuum_vacuum_scale_factor=",
                             "autovacuum_vacuum_insert_scale_factor="}) {
    EXPECT_THAT(options, ::testing::HasSubstr(option));
  }
}

}  // namespace
}  // namespace dedupe::testing
