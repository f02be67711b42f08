// Who is woken, by what and in which order, and who is not.
#include "server/service/waiters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/limits.h"
#include "server/service/reason.h"
#include "tests/support/fake_store.h"

namespace dedupe {
namespace {

using ::dedupe::testing::FakeStore;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Place = Waiters::Place;

// So long nobody's time is up in a test that is not about it.
constexpr std::chrono::seconds kLong(60);
// Many ticks: whoever is not woken within it is not going to be.
const absl::Duration kManyTicks = 8 * kWaitersTick;

SteadyTime In(std::chrono::steady_clock::duration duration) {
  return std::chrono::steady_clock::now() + duration;
}

LookupAnswer InState(RecordState state) {
  LookupAnswer answer;
  answer.state = state;
  answer.decided_at = absl::FromUnixSeconds(1000);
  return answer;
}

LookupAnswer Leased(absl::Duration left) {
  LookupAnswer answer = InState(RecordState::kInProgress);
  answer.lease_expires_at = answer.decided_at + left;
  return answer;
}

// The names of those that were woken, in order.
class Woken {
 public:
  Waiters::Wake Note(const std::string& name) {
    return [this, name] {
      absl::MutexLock lock(&mutex_);
      names_.push_back(name);
    };
  }

  std::vector<std::string> names() const {
    absl::MutexLock lock(&mutex_);
    return names_;
  }

  // Whether so many have been woken within the time.
  bool WaitFor(size_t count, absl::Duration limit = absl::Seconds(20)) const {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return names_.size() >= count;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), limit);
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

class WaitersTest : public ::testing::Test {
 protected:
  static constexpr size_t kWaitersMax = 4;

  WaitersTest() {
    // Nothing is to be found out by looking, unless a test says otherwise.
    WatchFinds(Leased(absl::Seconds(30)));
  }

  void WatchFinds(const LookupAnswer& answer) {
    store_.watches.AnswerBy([answer](const WatchCommand&) { return answer; });
  }

  bool Add(const RecordId& id, const std::string& name,
           Place place = Place::kLast) {
    return waiters_.Add(id, In(kLong), CallScope(In(kLong)), place,
                        woken_.Note(name));
  }

  const RecordId a_ = {"acme", "a"};
  const RecordId b_ = {"acme", "b"};
  FakeStore store_;
  Woken woken_;
  Waiters waiters_{store_, kWaitersMax};
};

// --- Woken by what passes this server ----------------------------------------

TEST_F(WaitersTest, WakeAllWakesEverybodyOfTheRecord) {
  Add(a_, "a1");
  Add(b_, "b1");
  Add(a_, "a2");
  waiters_.WakeAll(a_);
  EXPECT_THAT(woken_.names(), ElementsAre("a1", "a2"));
}

TEST_F(WaitersTest, WakeOneWakesWhoCameFirst) {
  Add(a_, "a1");
  Add(a_, "a2");
  waiters_.WakeOne(a_);
  EXPECT_THAT(woken_.names(), ElementsAre("a1"));
  waiters_.WakeOne(a_);
  EXPECT_THAT(woken_.names(), ElementsAre("a1", "a2"));
}

TEST_F(WaitersTest, WhoWasWokenInVainGoesBackToTheFront) {
  Add(a_, "a1");
  Add(a_, "a2");
  waiters_.WakeOne(a_);
  Add(a_, "a1 again", Place::kFirst);
  waiters_.WakeOne(a_);
  EXPECT_THAT(woken_.names(), ElementsAre("a1", "a1 again"));
}

TEST_F(WaitersTest, RecordsThatNobodyWaitsForAreNoMatter) {
  Add(a_, "a1");
  waiters_.WakeAll(b_);
  waiters_.WakeOne({"acm", "ea"});
  EXPECT_THAT(woken_.names(), IsEmpty());
}

TEST_F(WaitersTest, NobodyIsWokenTwice) {
  Add(a_, "a1");
  waiters_.WakeAll(a_);
  waiters_.WakeAll(a_);
  waiters_.WakeOne(a_);
  waiters_.Stop();
  EXPECT_THAT(woken_.names(), ElementsAre("a1"));
}

// The answer of a Begin that was woken may lead straight to the next Add.
TEST_F(WaitersTest, WhoIsWokenMayWaitAgainAtOnce) {
  waiters_.Add(a_, In(kLong), CallScope(In(kLong)), Place::kLast,
               [this] { Add(a_, "again", Place::kFirst); });
  waiters_.WakeOne(a_);
  EXPECT_THAT(woken_.names(), IsEmpty());
  waiters_.WakeAll(a_);
  EXPECT_THAT(woken_.names(), ElementsAre("again"));
}

// --- Woken by time -----------------------------------------------------------

TEST_F(WaitersTest, WhoseTimeIsUpIsWoken) {
  const SteadyTime until = In(std::chrono::milliseconds(60));
  waiters_.Add(a_, until, CallScope(In(kLong)), Place::kLast,
               woken_.Note("short"));
  Add(a_, "long");
  ASSERT_TRUE(woken_.WaitFor(1));
  EXPECT_GE(std::chrono::steady_clock::now(), until);
  EXPECT_THAT(woken_.names(), ElementsAre("short"));
}

TEST_F(WaitersTest, TimeInThePastIsUpAtTheNextTick) {
  waiters_.Add(a_, In(-kLong), CallScope(In(kLong)), Place::kLast,
               woken_.Note("late"));
  EXPECT_TRUE(woken_.WaitFor(1));
}

TEST_F(WaitersTest, WhoWasCancelledIsWokenAndMakesRoom) {
  CallScope scope(In(kLong));
  waiters_.Add(a_, In(kLong), scope, Place::kLast, woken_.Note("gone"));
  Add(a_, "here");
  scope.Cancel();
  ASSERT_TRUE(woken_.WaitFor(1));
  EXPECT_THAT(woken_.names(), ElementsAre("gone"));
}

// --- Woken by what passed another server -------------------------------------

TEST_F(WaitersTest, ACompletedRecordWakesEverybody) {
  WatchFinds(InState(RecordState::kCompleted));
  Add(a_, "a1");
  Add(a_, "a2");
  EXPECT_TRUE(woken_.WaitFor(2));
}

TEST_F(WaitersTest, ARecordInDoubtWakesEverybody) {
  WatchFinds(InState(RecordState::kInDoubt));
  Add(a_, "a1");
  Add(a_, "a2");
  EXPECT_TRUE(woken_.WaitFor(2));
}

struct FreeCase {
  const char* name;
  LookupAnswer found;
};

// One look, one waiter: the record is there for one of them.
class FreeRecordTest : public WaitersTest,
                       public ::testing::WithParamInterface<FreeCase> {};

TEST_P(FreeRecordTest, WakesOneForEachLook) {
  store_.watches.AnswerBy(nullptr);
  Add(a_, "a1");
  Add(a_, "a2");
  store_.watches.Take().Finish(GetParam().found);
  ASSERT_TRUE(woken_.WaitFor(1));
  EXPECT_THAT(woken_.names(), ElementsAre("a1"));
  store_.watches.Take().Finish(GetParam().found);
  ASSERT_TRUE(woken_.WaitFor(2));
  EXPECT_THAT(woken_.names(), ElementsAre("a1", "a2"));
}

INSTANTIATE_TEST_SUITE_P(
    All, FreeRecordTest,
    ::testing::Values(FreeCase{"Absent", InState(RecordState::kAbsent)},
                      FreeCase{"Released", InState(RecordState::kReleased)},
                      FreeCase{"JustLapsed", Leased(absl::ZeroDuration())},
                      FreeCase{"Lapsed", Leased(-absl::Milliseconds(1))}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(WaitersTest, ALiveLeaseWakesNobody) {
  WatchFinds(Leased(absl::Microseconds(1)));
  Add(a_, "a1");
  store_.watches.WaitForCount(3);
  EXPECT_THAT(woken_.names(), IsEmpty());
}

// Neither a full queue nor a database that is away tells of the record.
TEST_F(WaitersTest, AFailedLookWakesNobodyAndIsRepeated) {
  store_.watches.AnswerBy(
      [](const WatchCommand&) { return Refusal(Reason::kStoreDown); });
  Add(a_, "a1");
  store_.watches.WaitForCount(3);
  EXPECT_THAT(woken_.names(), IsEmpty());
  WatchFinds(InState(RecordState::kCompleted));
  EXPECT_TRUE(woken_.WaitFor(1));
}

TEST_F(WaitersTest, OneLookServesAllWaitersOfARecord) {
  store_.watches.AnswerBy(nullptr);
  Add(a_, "a1");
  Add(a_, "a2");
  Add(b_, "b1");
  auto first = store_.watches.Take();
  auto second = store_.watches.Take();
  EXPECT_THAT((std::vector<RecordId>{first.command.id, second.command.id}),
              UnorderedElementsAre(a_, b_));
  // Nothing is asked for again while one is under way.
  first.Finish(Leased(absl::Seconds(1)));
  EXPECT_FALSE(store_.watches.WaitForCall(kManyTicks));
  second.Finish(Leased(absl::Seconds(1)));
  EXPECT_TRUE(store_.watches.WaitForCall(absl::Seconds(20)));
}

TEST_F(WaitersTest, ALookHasADeadlineOfItsOwn) {
  store_.watches.AnswerBy(nullptr);
  Add(a_, "a1");
  auto look = store_.watches.Take();
  EXPECT_GT(look.scope.deadline(), look.arrived_at);
  EXPECT_LE(look.scope.deadline(), look.arrived_at + std::chrono::seconds(2));
  look.Finish(Leased(absl::Seconds(1)));
}

TEST_F(WaitersTest, NobodyWaitsNobodyLooks) {
  store_.watches.AnswerBy(nullptr);
  EXPECT_FALSE(store_.watches.WaitForCall(kManyTicks));
  Add(a_, "a1");
  waiters_.WakeAll(a_);
  // A tick that had begun may still have seen it.
  const size_t looks = store_.watches.count();
  EXPECT_LE(looks, 1u);
  EXPECT_FALSE(store_.watches.WaitForCall(kManyTicks));
  EXPECT_LE(store_.watches.count(), looks + 1);
}

// The look of an earlier group of waiters answers when a new one has come.
TEST_F(WaitersTest, ALateLookDoesNoHarm) {
  store_.watches.AnswerBy(nullptr);
  Add(a_, "a1");
  auto late = store_.watches.Take();
  waiters_.WakeAll(a_);
  late.Finish(InState(RecordState::kCompleted));
  EXPECT_THAT(woken_.names(), ElementsAre("a1"));
  Add(a_, "a2");
  auto look = store_.watches.Take();
  look.Finish(InState(RecordState::kCompleted));
  EXPECT_THAT(woken_.names(), ElementsAre("a1", "a2"));
}

// Waiting must not crowd out work: no more looks at once than one statement
// takes, and those not looked at for longest come first.
TEST(ManyKeysTest, AreLookedAtInTurn) {
  constexpr size_t kKeys = 300;
  constexpr size_t kLooksMax = 128;
  FakeStore store;
  Woken woken;
  Waiters waiters(store, kKeys);
  for (size_t i = 0; i < kKeys; ++i) {
    waiters.Add({"acme", absl::StrCat(i)}, In(kLong), CallScope(In(kLong)),
                Place::kLast, woken.Note("x"));
  }
  std::map<std::string, int> looks;
  // Three rounds, and one more, because the first tick may come before they are
  // all there.
  for (int round = 0; round < 4; ++round) {
    std::vector<decltype(store.watches.Take())> under_way;
    under_way.push_back(store.watches.Take());
    while (store.watches.WaitForCall(kManyTicks)) {
      under_way.push_back(store.watches.Take());
    }
    EXPECT_LE(under_way.size(), kLooksMax);
    for (auto& look : under_way) {
      ++looks[look.command.id.key];
      look.Finish(Leased(absl::Seconds(1)));
    }
  }
  EXPECT_EQ(looks.size(), kKeys);
  for (const auto& [key, count] : looks) EXPECT_LE(count, 2) << key;
}

// --- Bounds and the end ------------------------------------------------------

TEST_F(WaitersTest, OneTooManyIsRefusedAndNotCalled) {
  for (size_t i = 0; i < kWaitersMax; ++i) EXPECT_TRUE(Add(a_, "in"));
  EXPECT_FALSE(Add(b_, "out"));
  waiters_.WakeAll(a_);
  EXPECT_THAT(woken_.names(), ElementsAre("in", "in", "in", "in"));
}

TEST_F(WaitersTest, WhoIsWokenMakesRoom) {
  for (size_t i = 0; i < kWaitersMax; ++i) Add(a_, "in");
  waiters_.WakeOne(a_);
  EXPECT_TRUE(Add(b_, "next"));
  EXPECT_FALSE(Add(b_, "out"));
  waiters_.WakeAll(a_);
  waiters_.WakeAll(b_);
  for (size_t i = 0; i < kWaitersMax; ++i) EXPECT_TRUE(Add(b_, "in"));
}

TEST_F(WaitersTest, WhoseTimeIsUpMakesRoom) {
  for (size_t i = 0; i < kWaitersMax; ++i) {
    waiters_.Add(a_, In(-kLong), CallScope(In(kLong)), Place::kLast,
                 woken_.Note("short"));
  }
  ASSERT_TRUE(woken_.WaitFor(kWaitersMax));
  for (size_t i = 0; i < kWaitersMax; ++i) EXPECT_TRUE(Add(a_, "in"));
}

TEST(WaitersMaxTest, NobodyWaitsWhereNoneMay) {
  FakeStore store;
  Woken woken;
  Waiters waiters(store, 0);
  EXPECT_FALSE(waiters.Add({"acme", "a"}, In(kLong), CallScope(In(kLong)),
                           Place::kLast, woken.Note("out")));
}

TEST_F(WaitersTest, StopWakesEverybodyAndLetsNobodyIn) {
  Add(a_, "a1");
  Add(b_, "b1");
  waiters_.Stop();
  EXPECT_THAT(woken_.names(), UnorderedElementsAre("a1", "b1"));
  EXPECT_FALSE(Add(a_, "late"));
  waiters_.Stop();
  EXPECT_THAT(woken_.names(), UnorderedElementsAre("a1", "b1"));
}

TEST(WaitersEndTest, EndingWakesEverybody) {
  FakeStore store;
  Woken woken;
  auto waiters = std::make_unique<Waiters>(store, 4);
  waiters->Add({"acme", "a"}, In(kLong), CallScope(In(kLong)), Place::kLast,
               woken.Note("a1"));
  waiters.reset();
  EXPECT_THAT(woken.names(), ElementsAre("a1"));
}

// The store answers when it can, and that may be afterwards.
TEST(WaitersEndTest, ALookMayAnswerAfterTheEnd) {
  FakeStore store;
  Woken woken;
  auto waiters = std::make_unique<Waiters>(store, 4);
  waiters->Add({"acme", "a"}, In(kLong), CallScope(In(kLong)), Place::kLast,
               woken.Note("a1"));
  auto look = store.watches.Take();
  waiters.reset();
  look.Finish(InState(RecordState::kCompleted));
  EXPECT_THAT(woken.names(), ElementsAre("a1"));
}

// --- Threads -----------------------------------------------------------------

// Everything at once: time that is up, cancellation, looks, both wakes, and the
// end. Each waiter that was let in is woken exactly once.
class WaitersThreadsTest : public ::testing::Test {
 protected:
  static constexpr size_t kThreads = 4;

  WaitersThreadsTest() {
    store_.watches.AnswerBy([](const WatchCommand& command) {
      return command.id.key == "0" ? InState(RecordState::kCompleted)
                                   : Leased(absl::Seconds(1));
    });
  }

  // Until ticks and looks have joined in.
  void Work(uint32_t seed) {
    std::mt19937 random(seed);
    while (store_.watches.count() < 30) {
      const RecordId id = {"acme", absl::StrCat(random() % 4)};
      CallScope scope(In(kLong));
      if (waiters_->Add(id, In(std::chrono::milliseconds(random() % 60)), scope,
                        random() % 2 == 0 ? Place::kFirst : Place::kLast,
                        [this] { ++woken_; })) {
        ++added_;
      }
      if (random() % 8 == 0) scope.Cancel();
      if (random() % 16 == 0) waiters_->WakeOne(id);
      if (random() % 64 == 0) waiters_->WakeAll(id);
      std::this_thread::yield();
    }
  }

  FakeStore store_;
  std::atomic<int> added_{0};
  std::atomic<int> woken_{0};
  std::unique_ptr<Waiters> waiters_ = std::make_unique<Waiters>(store_, 100);
};

TEST_F(WaitersThreadsTest, EverybodyIsWokenExactlyOnce) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] { Work(i); });
  }
  for (std::thread& thread : threads) thread.join();
  waiters_.reset();
  EXPECT_EQ(woken_, added_);
  EXPECT_GT(added_, 100);
}

}  // namespace
}  // namespace dedupe
