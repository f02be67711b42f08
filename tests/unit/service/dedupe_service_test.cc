// The calls: what is broken never reaches the store, what is valid reaches it
// unchanged, and a Begin that may wait is asked again until it is worth it.
#include "server/service/dedupe_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/limits.h"
#include "server/service/reason.h"
#include "tests/support/fake_store.h"
#include "tests/unit/commands.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::dedupe::testing::FakeStore;
using ::dedupe::testing::IsOk;
using ::dedupe::testing::IsRefusal;
using ::dedupe::testing::ValidBegin;
using ::dedupe::testing::ValidComplete;
using ::dedupe::testing::ValidExtend;
using ::dedupe::testing::ValidLookup;
using ::dedupe::testing::ValidRelease;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// What a call is answered, and when, and how often.
template <typename Answer>
class Reply {
 public:
  Callback<Answer> Receiver() {
    return [this](absl::StatusOr<Answer> answer) {
      absl::MutexLock lock(&mutex_);
      ++count_;
      answer_ = std::move(answer);
      arrived_at_ = steady_clock::now();
    };
  }

  bool arrived() const {
    absl::MutexLock lock(&mutex_);
    return count_ > 0;
  }
  int count() const {
    absl::MutexLock lock(&mutex_);
    return count_;
  }
  // Waits for it.
  absl::StatusOr<Answer> answer() const {
    absl::MutexLock lock(&mutex_);
    testing::AwaitConditionOrDie(mutex_, absl::Condition(&HasCome, &count_));
    return answer_;
  }
  SteadyTime arrived_at() const {
    absl::MutexLock lock(&mutex_);
    return arrived_at_;
  }

 private:
  static bool HasCome(const int* count) { return *count > 0; }

  mutable absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::StatusOr<Answer> answer_ ABSL_GUARDED_BY(mutex_);
  SteadyTime arrived_at_ ABSL_GUARDED_BY(mutex_);
};

BeginAnswer AnswerOf(BeginOutcome outcome) {
  return {std::move(outcome), absl::FromUnixSeconds(1000)};
}
BeginAnswer InProgressAnswer() {
  return AnswerOf(
      InProgress{absl::FromUnixSeconds(990), absl::FromUnixSeconds(1030)});
}
BeginAnswer StartedAnswer() {
  Started started;
  started.fence = 9;
  return AnswerOf(started);
}
BeginAnswer ReplayAnswer() { return AnswerOf(Replay{}); }

class DedupeServiceTest : public ::testing::Test {
 protected:
  DedupeServiceTest() {
    store_.watches.AnswerBy([](const WatchCommand&) {
      LookupAnswer answer;
      answer.state = RecordState::kInProgress;
      answer.decided_at = absl::FromUnixSeconds(1000);
      answer.lease_expires_at = absl::FromUnixSeconds(1030);
      return answer;
    });
  }

  static CallScope ScopeOf(steady_clock::duration left) {
    return CallScope(steady_clock::now() + left);
  }
  CallScope Scope() { return ScopeOf(seconds(60)); }

  void Begin(Reply<BeginAnswer>& reply,
             std::optional<absl::Duration> wait = absl::Seconds(30),
             const std::string& attempt_id = "attempt-1") {
    BeginCommand command = ValidBegin();
    command.attempt_id = attempt_id;
    service_.Begin(command, {.wait = wait}, Scope(), reply.Receiver());
  }

  // Brings a Begin as far as waiting.
  void BeginAndWait(Reply<BeginAnswer>& reply,
                    const std::string& attempt_id = "attempt-1") {
    Begin(reply, absl::Seconds(30), attempt_id);
    store_.begins.Take().Finish(InProgressAnswer());
    EXPECT_FALSE(reply.arrived());
  }

  void Complete() {
    Reply<CompleteAnswer> reply;
    service_.Complete(ValidComplete(), Scope(), reply.Receiver());
    store_.completes.Take().Finish(CompleteAnswer());
    EXPECT_THAT(reply.answer(), IsOk());
  }

  void Release() {
    Reply<ReleaseAnswer> reply;
    service_.Release(ValidRelease(), Scope(), reply.Receiver());
    store_.releases.Take().Finish(ReleaseAnswer());
    EXPECT_THAT(reply.answer(), IsOk());
  }

  FakeStore store_;
  DedupeService service_{store_, /*waiters_max=*/2};
};

// --- What is broken ----------------------------------------------------------

TEST_F(DedupeServiceTest, BrokenCallsNeverReachTheStore) {
  Reply<BeginAnswer> begin;
  service_.Begin({}, {}, Scope(), begin.Receiver());
  Reply<CompleteAnswer> complete;
  service_.Complete({}, Scope(), complete.Receiver());
  Reply<ExtendAnswer> extend;
  service_.Extend({}, Scope(), extend.Receiver());
  Reply<ReleaseAnswer> release;
  service_.Release({}, Scope(), release.Receiver());
  Reply<LookupAnswer> lookup;
  service_.Lookup({}, Scope(), lookup.Receiver());

  const auto refused = IsRefusal(Reason::kClientIdEmpty, "client_id");
  EXPECT_THAT(begin.answer(), refused);
  EXPECT_THAT(complete.answer(), refused);
  EXPECT_THAT(extend.answer(), refused);
  EXPECT_THAT(release.answer(), refused);
  EXPECT_THAT(lookup.answer(), refused);
  EXPECT_EQ(store_.calls(), 0u);
}

TEST_F(DedupeServiceTest, ABrokenWaitNeverReachesTheStore) {
  for (const absl::Duration wait :
       {absl::ZeroDuration(), -absl::Seconds(1),
        kWaitMax + absl::Nanoseconds(1), absl::InfiniteDuration()}) {
    Reply<BeginAnswer> reply;
    Begin(reply, wait);
    EXPECT_THAT(reply.answer(), IsRefusal(Reason::kWaitRange, "wait"));
  }
  EXPECT_EQ(store_.calls(), 0u);
}

// The wait is the last thing to be found fault with.
TEST_F(DedupeServiceTest, ABrokenFieldIsToldBeforeABrokenWait) {
  BeginCommand command = ValidBegin();
  command.ttl = absl::ZeroDuration();
  Reply<BeginAnswer> reply;
  service_.Begin(command, {.wait = absl::ZeroDuration()}, Scope(),
                 reply.Receiver());
  EXPECT_THAT(reply.answer(), IsRefusal(Reason::kTtlRange, "ttl"));
}

// --- What is passed on -------------------------------------------------------

TEST_F(DedupeServiceTest, BeginIsPassedOnAsItCame) {
  BeginCommand command = ValidBegin();
  command.lease = absl::Seconds(3);
  command.on_lease_expiry = OnLeaseExpiry::kHold;
  const CallScope scope = Scope();
  Reply<BeginAnswer> reply;
  service_.Begin(command, {}, scope, reply.Receiver());
  auto call = store_.begins.Take();
  EXPECT_EQ(call.command.id, command.id);
  EXPECT_EQ(call.command.operation, command.operation);
  EXPECT_EQ(call.command.fingerprint, command.fingerprint);
  EXPECT_EQ(call.command.attempt_id, command.attempt_id);
  EXPECT_EQ(call.command.lease, absl::Seconds(3));
  EXPECT_EQ(call.command.ttl, std::nullopt);
  EXPECT_EQ(call.command.on_lease_expiry, OnLeaseExpiry::kHold);
  EXPECT_EQ(call.scope.deadline(), scope.deadline());
  call.Finish(StartedAnswer());
  EXPECT_EQ(*reply.answer(), StartedAnswer());
}

TEST_F(DedupeServiceTest, TheStoresErrorsArePassedOn) {
  Reply<ExtendAnswer> extend;
  service_.Extend(ValidExtend(), Scope(), extend.Receiver());
  store_.extends.Take().Finish(Refusal(Reason::kLeaseLost));
  EXPECT_THAT(extend.answer(), IsRefusal(Reason::kLeaseLost));

  Reply<LookupAnswer> lookup;
  service_.Lookup(ValidLookup(), Scope(), lookup.Receiver());
  store_.lookups.Take().Finish(Refusal(Reason::kStoreDown));
  EXPECT_THAT(lookup.answer(), IsRefusal(Reason::kStoreDown));
}

TEST_F(DedupeServiceTest, CancellingReachesTheStore) {
  CallScope scope = Scope();
  Reply<BeginAnswer> reply;
  service_.Begin(ValidBegin(), {.wait = absl::Seconds(1)}, scope,
                 reply.Receiver());
  auto call = store_.begins.Take();
  EXPECT_FALSE(call.scope.cancelled());
  scope.Cancel();
  EXPECT_TRUE(call.scope.cancelled());
  call.Finish(Refusal(Reason::kCancelled));
}

// --- Waiting -----------------------------------------------------------------

TEST_F(DedupeServiceTest, WithoutAWaitInProgressIsToldAtOnce) {
  Reply<BeginAnswer> reply;
  Begin(reply, std::nullopt);
  store_.begins.Take().Finish(InProgressAnswer());
  EXPECT_EQ(*reply.answer(), InProgressAnswer());
  EXPECT_EQ(store_.begins.count(), 1u);
}

TEST_F(DedupeServiceTest, EveryOtherAnswerIsToldAtOnce) {
  for (const absl::StatusOr<BeginAnswer>& answer :
       {absl::StatusOr<BeginAnswer>(StartedAnswer()),
        absl::StatusOr<BeginAnswer>(ReplayAnswer()),
        absl::StatusOr<BeginAnswer>(AnswerOf(Mismatch{})),
        absl::StatusOr<BeginAnswer>(AnswerOf(InDoubt{})),
        absl::StatusOr<BeginAnswer>(Refusal(Reason::kAttemptFinished)),
        absl::StatusOr<BeginAnswer>(Refusal(Reason::kStoreDown))}) {
    Reply<BeginAnswer> reply;
    Begin(reply);
    store_.begins.Take().Finish(answer);
    EXPECT_TRUE(reply.arrived());
    EXPECT_EQ(reply.answer().status(), answer.status());
  }
}

TEST_F(DedupeServiceTest, CompleteWakesAllWaiters) {
  Reply<BeginAnswer> first;
  Reply<BeginAnswer> second;
  BeginAndWait(first, "attempt-2");
  BeginAndWait(second, "attempt-3");
  Complete();
  for (int i = 0; i < 2; ++i) store_.begins.Take().Finish(ReplayAnswer());
  EXPECT_EQ(*first.answer(), ReplayAnswer());
  EXPECT_EQ(*second.answer(), ReplayAnswer());
}

TEST_F(DedupeServiceTest, ReleaseWakesOneWaiter) {
  Reply<BeginAnswer> first;
  Reply<BeginAnswer> second;
  BeginAndWait(first, "attempt-2");
  BeginAndWait(second, "attempt-3");
  Release();
  auto call = store_.begins.Take();
  EXPECT_EQ(call.command.attempt_id, "attempt-2");
  call.Finish(StartedAnswer());
  EXPECT_EQ(*first.answer(), StartedAnswer());
  EXPECT_FALSE(store_.begins.WaitForCall(8 * kWaitersTick));
  EXPECT_FALSE(second.arrived());
}

// Somebody else was faster.
TEST_F(DedupeServiceTest, WhoWasWokenInVainIsNextAgain) {
  Reply<BeginAnswer> first;
  Reply<BeginAnswer> second;
  BeginAndWait(first, "attempt-2");
  BeginAndWait(second, "attempt-3");
  for (int i = 0; i < 2; ++i) {
    Release();
    auto call = store_.begins.Take();
    EXPECT_EQ(call.command.attempt_id, "attempt-2");
    call.Finish(InProgressAnswer());
  }
  EXPECT_FALSE(first.arrived());
}

TEST_F(DedupeServiceTest, AnUnsuccessfulCompleteOrReleaseWakesNobody) {
  Reply<BeginAnswer> waiting;
  BeginAndWait(waiting);
  Reply<CompleteAnswer> complete;
  service_.Complete(ValidComplete(), Scope(), complete.Receiver());
  store_.completes.Take().Finish(Refusal(Reason::kLeaseLost));
  Reply<ReleaseAnswer> release;
  service_.Release(ValidRelease(), Scope(), release.Receiver());
  store_.releases.Take().Finish(Refusal(Reason::kKeyUnknown));
  EXPECT_FALSE(store_.begins.WaitForCall(8 * kWaitersTick));
}

TEST_F(DedupeServiceTest, OtherRecordsWakeNobody) {
  Reply<BeginAnswer> waiting;
  BeginAndWait(waiting);
  CompleteCommand command = ValidComplete();
  command.id.client_id = "globex";
  Reply<CompleteAnswer> complete;
  service_.Complete(command, Scope(), complete.Receiver());
  store_.completes.Take().Finish(CompleteAnswer());
  EXPECT_FALSE(store_.begins.WaitForCall(8 * kWaitersTick));
}

TEST_F(DedupeServiceTest, WhatPassedAnotherServerIsFoundByLooking) {
  Reply<BeginAnswer> waiting;
  BeginAndWait(waiting);
  store_.watches.AnswerBy([](const WatchCommand&) {
    LookupAnswer answer;
    answer.state = RecordState::kCompleted;
    return answer;
  });
  store_.begins.Take().Finish(ReplayAnswer());
  EXPECT_EQ(*waiting.answer(), ReplayAnswer());
}

// --- How long ----------------------------------------------------------------

TEST_F(DedupeServiceTest, WaitEndsWithOneMoreQuestion) {
  const SteadyTime began = steady_clock::now();
  Reply<BeginAnswer> reply;
  Begin(reply, absl::Milliseconds(200));
  store_.begins.Take().Finish(InProgressAnswer());
  auto last = store_.begins.Take();
  EXPECT_GE(last.arrived_at - began, milliseconds(200));
  last.Finish(InProgressAnswer());
  EXPECT_EQ(*reply.answer(), InProgressAnswer());
  EXPECT_EQ(store_.begins.count(), 2u);
}

// The last question needs time for its answer: 150 ms.
TEST_F(DedupeServiceTest, WaitEndsBeforeTheDeadline) {
  const CallScope scope = ScopeOf(milliseconds(500));
  Reply<BeginAnswer> reply;
  service_.Begin(ValidBegin(), {.wait = absl::Seconds(30)}, scope,
                 reply.Receiver());
  store_.begins.Take().Finish(InProgressAnswer());
  auto last = store_.begins.Take();
  EXPECT_GE(last.arrived_at, scope.deadline() - milliseconds(150));
  // One tick later at the latest, and the rest is room for a busy machine.
  EXPECT_LT(last.arrived_at, scope.deadline());
  last.Finish(InProgressAnswer());
  EXPECT_EQ(*reply.answer(), InProgressAnswer());
}

TEST_F(DedupeServiceTest, ADeadlineTooCloseLeavesNoTimeToWait) {
  Reply<BeginAnswer> reply;
  service_.Begin(ValidBegin(), {.wait = absl::Seconds(30)},
                 ScopeOf(milliseconds(140)), reply.Receiver());
  store_.begins.Take().Finish(InProgressAnswer());
  EXPECT_TRUE(reply.arrived());
  EXPECT_EQ(*reply.answer(), InProgressAnswer());
}

TEST_F(DedupeServiceTest, TooManyWaitersAreToldInProgressAtOnce) {
  Reply<BeginAnswer> first;
  Reply<BeginAnswer> second;
  Reply<BeginAnswer> third;
  BeginAndWait(first);
  BeginAndWait(second);
  Begin(third);
  store_.begins.Take().Finish(InProgressAnswer());
  EXPECT_TRUE(third.arrived());
  EXPECT_EQ(*third.answer(), InProgressAnswer());
}

TEST_F(DedupeServiceTest, ACancelledWaiterIsAskedForNoLonger) {
  CallScope scope = Scope();
  Reply<BeginAnswer> reply;
  service_.Begin(ValidBegin(), {.wait = absl::Seconds(30)}, scope,
                 reply.Receiver());
  store_.begins.Take().Finish(InProgressAnswer());
  scope.Cancel();
  auto last = store_.begins.Take();
  EXPECT_TRUE(last.scope.cancelled());
  last.Finish(Refusal(Reason::kCancelled));
  EXPECT_THAT(reply.answer(), IsRefusal(Reason::kCancelled));
}

TEST_F(DedupeServiceTest, AfterStopWaitingNobodyWaits) {
  Reply<BeginAnswer> waiting;
  BeginAndWait(waiting);
  service_.StopWaiting();
  store_.begins.Take().Finish(InProgressAnswer());
  EXPECT_EQ(*waiting.answer(), InProgressAnswer());

  Reply<BeginAnswer> late;
  Begin(late);
  store_.begins.Take().Finish(InProgressAnswer());
  EXPECT_TRUE(late.arrived());
}

TEST_F(DedupeServiceTest, NobodyIsAnsweredTwice) {
  Reply<BeginAnswer> reply;
  BeginAndWait(reply);
  Complete();
  Release();
  service_.StopWaiting();
  store_.begins.Take().Finish(ReplayAnswer());
  EXPECT_FALSE(store_.begins.WaitForCall(8 * kWaitersTick));
  EXPECT_EQ(reply.count(), 1);
}

class FullQuotaTest : public DedupeServiceTest {
 protected:
  void Begin(Reply<BeginAnswer>& reply) {
    service_.Begin(ValidBegin(),
                   {.may_create = Refusal(Reason::kQuota, "live_keys")},
                   Scope(), reply.Receiver());
  }
  void Look(RecordState state) {
    store_.watches.AnswerBy([state](const WatchCommand&) {
      LookupAnswer answer;
      answer.state = state;
      return answer;
    });
  }
};

TEST_F(FullQuotaTest, NewKeyIsRefusedUnasked) {
  Look(RecordState::kAbsent);
  Reply<BeginAnswer> reply;
  Begin(reply);
  EXPECT_EQ(ReasonOf(reply.answer().status()), Reason::kQuota);
  EXPECT_EQ(store_.begins.count(), 0u);
}

TEST_F(FullQuotaTest, KeyWithARecordIsBegunAsEver) {
  for (const RecordState state :
       {RecordState::kInProgress, RecordState::kReleased, RecordState::kInDoubt,
        RecordState::kCompleted}) {
    Look(state);
    Reply<BeginAnswer> reply;
    Begin(reply);
    store_.begins.Take().Finish(InProgressAnswer());
    EXPECT_TRUE(reply.answer().ok());
  }
}

TEST_F(FullQuotaTest, ErrorOfTheLookIsTheAnswer) {
  store_.watches.AnswerBy(
      [](const WatchCommand&) { return Refusal(Reason::kStoreDown); });
  Reply<BeginAnswer> reply;
  Begin(reply);
  EXPECT_EQ(ReasonOf(reply.answer().status()), Reason::kStoreDown);
}

}  // namespace
}  // namespace dedupe
