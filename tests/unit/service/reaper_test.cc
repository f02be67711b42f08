// The reaper's pace, and what keeps it from deleting by a clock that jumped.
#include "server/service/reaper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "server/service/reason.h"
#include "tests/support/fake_store.h"

namespace dedupe {
namespace {

using ::dedupe::testing::FakeStore;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::Gt;
using ::testing::Le;

const absl::Time kNoon = absl::FromUnixSeconds(1'700'000'000);

// --- ClockGuard --------------------------------------------------------------

const SteadyTime kStart = SteadyTime() + seconds(1000);

TEST(ClockGuardTest, BelievesAnythingBeforeTheFirstReading) {
  EXPECT_EQ(ClockGuard().Latest(kStart), std::nullopt);
}

TEST(ClockGuardTest, AllowsAMinuteAtOnce) {
  ClockGuard guard;
  guard.Observe(kNoon, kStart);
  EXPECT_EQ(guard.Latest(kStart), kNoon + absl::Minutes(1));
}

TEST(ClockGuardTest, AllowsTwiceTheTimeThatHasPassed) {
  ClockGuard guard;
  guard.Observe(kNoon, kStart);
  EXPECT_EQ(guard.Latest(kStart + seconds(1)),
            kNoon + absl::Seconds(2) + absl::Minutes(1));
  EXPECT_EQ(guard.Latest(kStart + std::chrono::hours(24)),
            kNoon + absl::Hours(48) + absl::Minutes(1));
}

TEST(ClockGuardTest, CountsFromTheLastReading) {
  ClockGuard guard;
  guard.Observe(kNoon, kStart);
  guard.Observe(kNoon + absl::Seconds(10), kStart + seconds(10));
  EXPECT_EQ(guard.Latest(kStart + seconds(11)),
            kNoon + absl::Seconds(12) + absl::Minutes(1));
}

// A clock that was set back is believed: nothing is deleted by it too early.
TEST(ClockGuardTest, FollowsAClockThatGoesBack) {
  ClockGuard guard;
  guard.Observe(kNoon, kStart);
  guard.Observe(kNoon - absl::Hours(1), kStart + seconds(1));
  EXPECT_EQ(guard.Latest(kStart + seconds(1)),
            kNoon - absl::Hours(1) + absl::Minutes(1));
}

// --- Reaper ------------------------------------------------------------------

constexpr int kBatch = 100;
constexpr absl::Duration kNever = absl::Hours(1);
using ReapCall = testing::Desk<ReapCommand, ReapAnswer>::Call;

ReapAnswer Examined(int examined, absl::Time decided_at = kNoon) {
  ReapAnswer answer;
  answer.examined = examined;
  answer.deleted = examined;
  answer.decided_at = decided_at;
  return answer;
}

ReapAnswer Refused(absl::Time decided_at) {
  ReapAnswer answer;
  answer.clock_refused = true;
  answer.decided_at = decided_at;
  return answer;
}

class ReaperTest : public ::testing::Test {
 protected:
  ~ReaperTest() override {
    // It does not end while a call of its is open.
    store_.reaps.AnswerBy([](const ReapCommand&) {
      return absl::StatusOr<ReapAnswer>(Refusal(Reason::kDraining));
    });
    if (call_.has_value()) Answer(Refusal(Reason::kDraining));
  }

  void Start(absl::Duration interval, absl::Duration distrust = kNever) {
    reaper_.emplace(store_, Reaper::Options{.interval = interval,
                                            .batch_rows_max = kBatch,
                                            .distrust = distrust});
  }

  // The next call, which then is to be answered.
  const ReapCall& Next() {
    call_.emplace(store_.reaps.Take());
    return *call_;
  }
  // Returns when that was.
  SteadyTime Answer(absl::StatusOr<ReapAnswer> answer) {
    const SteadyTime now = steady_clock::now();
    call_->Finish(std::move(answer));
    call_.reset();
    return now;
  }

  // Past the first, which only reads the clock.
  void StartAndReadClock(absl::Duration interval,
                         absl::Duration distrust = kNever) {
    Start(interval, distrust);
    Next();
    Answer(Examined(0));
  }

  // Until it deletes again; returns that call.
  const ReapCall& PassDistrust(absl::Time now) {
    while (Next().command.row_limit == 0) Answer(Examined(0, now));
    return *call_;
  }

  FakeStore store_;
  std::optional<ReapCall> call_;
  std::optional<Reaper> reaper_;
};

TEST_F(ReaperTest, TheFirstCallOnlyReadsTheClock) {
  Start(kNever);
  EXPECT_EQ(Next().command.row_limit, 0);
  EXPECT_EQ(call_->command.latest, std::nullopt);
}

TEST_F(ReaperTest, TheSecondCallFollowsAtOnceAndDeletes) {
  StartAndReadClock(kNever);
  EXPECT_EQ(Next().command.row_limit, kBatch);
  ASSERT_TRUE(call_->command.latest.has_value());
  // A minute, and twice the moment that has passed; a minute more is room for
  // a busy machine.
  EXPECT_THAT(*call_->command.latest, AllOf(Gt(kNoon + absl::Minutes(1)),
                                            Le(kNoon + absl::Minutes(2))));
}

TEST_F(ReaperTest, CallsHaveADeadline) {
  Start(kNever);
  Next();
  EXPECT_THAT(call_->scope.deadline() - call_->arrived_at,
              AllOf(Gt(seconds(0)), Le(seconds(10))));
}

TEST_F(ReaperTest, RestsForTheIntervalWhenThereIsNoMore) {
  StartAndReadClock(absl::Milliseconds(150));
  for (const int examined : {0, kBatch - 1}) {
    Next();
    const SteadyTime answered_at = Answer(Examined(examined));
    EXPECT_TRUE(store_.reaps.WaitForCall(absl::Seconds(20)));
    EXPECT_GE(steady_clock::now() - answered_at, milliseconds(150));
  }
}

// At most half of the time goes into deleting.
TEST_F(ReaperTest, RestsAsLongAsAFullBatchTook) {
  StartAndReadClock(kNever);
  const SteadyTime arrived_at = Next().arrived_at;
  // It waits for its answer meanwhile, and asks for nothing else.
  EXPECT_FALSE(store_.reaps.WaitForCall(absl::Milliseconds(120)));
  const SteadyTime answered_at = Answer(Examined(kBatch));
  EXPECT_GE(Next().arrived_at - answered_at, answered_at - arrived_at);
}

TEST_F(ReaperTest, RestsALittleAfterTheFastestBatch) {
  StartAndReadClock(kNever);
  Next();
  const SteadyTime answered_at = Answer(Examined(kBatch));
  EXPECT_GE(Next().arrived_at - answered_at, milliseconds(10));
}

TEST_F(ReaperTest, AFailureIsTriedAgainAfterTheInterval) {
  StartAndReadClock(absl::Milliseconds(100));
  const ReapCommand failed = Next().command;
  const SteadyTime answered_at = Answer(Refusal(Reason::kStoreDown));
  EXPECT_GE(Next().arrived_at - answered_at, milliseconds(100));
  EXPECT_EQ(call_->command.row_limit, kBatch);
  EXPECT_GE(call_->command.latest, failed.latest);
}

TEST_F(ReaperTest, NothingIsDeletedUntilTheClockHasBeenRead) {
  Start(absl::Milliseconds(10));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Next().command.row_limit, 0);
    EXPECT_EQ(call_->command.latest, std::nullopt);
    Answer(Refusal(Reason::kStoreDown));
  }
}

TEST_F(ReaperTest, AfterAJumpNothingIsDeleted) {
  const absl::Time jumped = kNoon + absl::Hours(24);
  StartAndReadClock(absl::Milliseconds(10));
  Next();
  Answer(Refused(jumped));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Next().command.row_limit, 0);
    Answer(Examined(0, jumped));
  }
}

TEST_F(ReaperTest, AfterTheDistrustTheNewTimeIsTrue) {
  const absl::Time jumped = kNoon + absl::Hours(24);
  StartAndReadClock(absl::Milliseconds(20), absl::Milliseconds(200));
  Next();
  const SteadyTime jumped_at = Answer(Refused(jumped));
  const ReapCall& call = PassDistrust(jumped);
  EXPECT_GE(call.arrived_at - jumped_at, milliseconds(200));
  EXPECT_EQ(call.command.row_limit, kBatch);
  EXPECT_GE(*call.command.latest, jumped + absl::Minutes(1));
}

// A clock that jumps again while it is looked at.
TEST_F(ReaperTest, AnotherJumpBeginsTheDistrustAnew) {
  const absl::Time jumped = kNoon + absl::Hours(24);
  StartAndReadClock(absl::Milliseconds(20), absl::Milliseconds(200));
  Next();
  Answer(Refused(jumped));
  EXPECT_EQ(Next().command.row_limit, 0);
  const SteadyTime jumped_again_at = Answer(Refused(jumped + absl::Hours(24)));
  EXPECT_GE(PassDistrust(jumped + absl::Hours(24)).arrived_at - jumped_again_at,
            milliseconds(200));
}

TEST_F(ReaperTest, StopCutsTheRestShort) {
  StartAndReadClock(kNever);
  Next();
  const SteadyTime began = Answer(Examined(0));
  reaper_->Stop();
  // A step of 20 ms; the rest is room for a busy machine.
  EXPECT_LT(steady_clock::now() - began, seconds(5));
  reaper_->Stop();
  EXPECT_EQ(store_.reaps.count(), 2u);
}

// Or the store could be gone before its answer.
TEST_F(ReaperTest, StopWaitsForTheBatchUnderWay) {
  StartAndReadClock(kNever);
  Next();
  std::atomic<bool> stopped = false;
  std::thread stopper([&] {
    reaper_->Stop();
    stopped = true;
  });
  EXPECT_FALSE(store_.reaps.WaitForCall(absl::Milliseconds(100)));
  EXPECT_FALSE(stopped);
  Answer(Examined(kBatch));
  stopper.join();
  EXPECT_EQ(store_.reaps.count(), 2u);
}

}  // namespace
}  // namespace dedupe
