// Begin: every outcome, and what leads to it. See store_contract.h.
#include <gmock/gmock.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/store/store_contract.h"

namespace dedupe::testing {
namespace {

using ::testing::Gt;
using ::testing::Optional;

class BeginContract : public StoreContract {};
DEDUPE_CONTRACT_SUITE(BeginContract);

BeginCommand WithLease(BeginCommand begin, absl::Duration lease) {
  begin.lease = lease;
  return begin;
}

BeginCommand WithTtl(BeginCommand begin, absl::Duration ttl) {
  begin.ttl = ttl;
  return begin;
}

BeginCommand Holding(BeginCommand begin) {
  begin.on_lease_expiry = OnLeaseExpiry::kHold;
  return begin;
}

TEST_P(BeginContract, FirstCallerIsStarted) {
  const auto answer = store_.Begin(By("a1"));
  const Started started = Get<Started>(answer);
  EXPECT_EQ(started.fence, absl::ToUnixMicros(Now()));
  EXPECT_EQ(started.attempt_number, 1);
  EXPECT_FALSE(started.resumed);
  EXPECT_FALSE(started.taken_over);
  EXPECT_EQ(started.checkpoint, "");
  EXPECT_EQ(answer->decided_at, Now());
}

TEST_P(BeginContract, LeaseIsThirtySecondsUnlessAskedFor) {
  EXPECT_EQ(Get<Started>(store_.Begin(By("a1", "unset"))).lease_expires_at,
            Now() + absl::Seconds(30));
  EXPECT_EQ(
      Get<Started>(store_.Begin(WithLease(By("a1", "set"), absl::Minutes(15))))
          .lease_expires_at,
      Now() + absl::Minutes(15));
}

TEST_P(BeginContract, SecondAttemptSeesHolder) {
  const absl::Time began = Now();
  Start(By("a1"));
  Advance(absl::Milliseconds(10));
  const auto answer = store_.Begin(By("a2"));
  const InProgress in_progress = Get<InProgress>(answer);
  EXPECT_EQ(in_progress.started_at, began);
  EXPECT_EQ(in_progress.lease_expires_at, began + absl::Seconds(30));
  EXPECT_EQ(answer->decided_at, Now());
}

TEST_P(BeginContract, LeaseHoldsToItsLastMicrosecond) {
  Start(WithLease(By("a1"), absl::Seconds(2)));
  Advance(absl::Seconds(2) - absl::Microseconds(1));
  EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a2"))));
  Advance(absl::Microseconds(1));
  EXPECT_TRUE(Get<Started>(store_.Begin(By("a2"))).taken_over);
}

TEST_P(BeginContract, SameAttemptIsResumedWithItsFence) {
  const int64_t fence = Start(By("a1"));
  Advance(absl::Seconds(10));
  const Started again = Get<Started>(store_.Begin(By("a1")));
  EXPECT_TRUE(again.resumed);
  EXPECT_FALSE(again.taken_over);
  EXPECT_EQ(again.fence, fence);
  EXPECT_EQ(again.attempt_number, 1);
  EXPECT_EQ(again.lease_expires_at, Now() + absl::Seconds(30));
}

TEST_P(BeginContract, ResumingNeverShortensTheLease) {
  const absl::Time began = Now();
  Start(WithLease(By("a1"), absl::Minutes(5)));
  Advance(absl::Seconds(1));
  EXPECT_EQ(Get<Started>(store_.Begin(WithLease(By("a1"), absl::Seconds(2))))
                .lease_expires_at,
            began + absl::Minutes(5));
}

TEST_P(BeginContract, LapsedLeaseIsResumedByItsOwnAttempt) {
  const int64_t fence = Start(WithLease(By("a1"), absl::Seconds(2)));
  Advance(absl::Seconds(3));
  const Started again =
      Get<Started>(store_.Begin(WithLease(By("a1"), absl::Seconds(2))));
  EXPECT_TRUE(again.resumed);
  EXPECT_EQ(again.fence, fence);
  EXPECT_EQ(again.lease_expires_at, Now() + absl::Seconds(2));
  EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a2"))));
}

TEST_P(BeginContract, ResumingIsNotANewStart) {
  const absl::Time began = Now();
  Start(By("a1"));
  Advance(absl::Seconds(1));
  Start(By("a1"));
  EXPECT_EQ(Get<InProgress>(store_.Begin(By("a2"))).started_at, began);
}

TEST_P(BeginContract, ResumingBringsItsOwnTtlAndPolicy) {
  Start(WithTtl(By("a1"), absl::Hours(1)));
  Start(Holding(WithTtl(By("a1"), absl::Hours(2))));
  Advance(absl::Seconds(30));
  EXPECT_TRUE(Is<InDoubt>(store_.Begin(By("a2"))));
  const int64_t fence = Start(WithTtl(By("a1"), absl::Hours(3)));
  const auto completed = store_.Complete(MakeComplete(By("a1"), fence));
  ASSERT_THAT(completed, IsOk());
  EXPECT_EQ(completed->expires_at, Now() + absl::Hours(3));
}

TEST_P(BeginContract, TakeoverChangesTheHolder) {
  const BeginCommand first = WithLease(By("a1"), absl::Seconds(2));
  const int64_t old_fence = Start(first);
  Advance(absl::Seconds(2));
  const Started started = Get<Started>(store_.Begin(By("a2")));
  EXPECT_TRUE(started.taken_over);
  EXPECT_FALSE(started.resumed);
  EXPECT_THAT(started.fence, Gt(old_fence));
  EXPECT_EQ(started.attempt_number, 2);
  EXPECT_EQ(started.lease_expires_at, Now() + absl::Seconds(30));
  // Now it is the first that has to wait.
  EXPECT_EQ(Get<InProgress>(store_.Begin(first)).started_at, Now());
}

TEST_P(BeginContract, HeldLeaseInDoubtOnceItLapses) {
  Start(Holding(WithLease(By("a1"), absl::Seconds(2))));
  const absl::Time lapses = Now() + absl::Seconds(2);
  EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a2"))));
  Advance(absl::Seconds(2));
  const auto answer = store_.Begin(By("a2"));
  EXPECT_EQ(Get<InDoubt>(answer), (InDoubt{lapses, 1}));
  EXPECT_EQ(answer->decided_at, Now());
}

TEST_P(BeginContract, RecordInDoubtNeverExpires) {
  Start(Holding(WithTtl(By("a1"), absl::Milliseconds(100))));
  Advance(absl::Hours(24 * 400));
  EXPECT_TRUE(Is<InDoubt>(store_.Begin(By("a2"))));
  EXPECT_TRUE(Is<Mismatch>(store_.Begin(OtherBy("a2"))));
}

TEST_P(BeginContract, RecordInDoubtIsResumedByItsOwnAttempt) {
  const BeginCommand holding = Holding(By("a1"));
  const int64_t fence = Start(holding);
  Advance(absl::Hours(48));
  const Started again = Get<Started>(store_.Begin(holding));
  EXPECT_TRUE(again.resumed);
  EXPECT_EQ(again.fence, fence);
  EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a2"))));
}

TEST_P(BeginContract, HoldersPolicyCountsAtLapse) {
  Start(By("a1"));
  Advance(absl::Seconds(30));
  // The first one's was TAKEOVER, whatever the second wants for itself.
  EXPECT_TRUE(Is<Started>(store_.Begin(Holding(By("a2")))));
  Advance(absl::Seconds(30));
  EXPECT_TRUE(Is<InDoubt>(store_.Begin(By("a3"))));
}

TEST_P(BeginContract, EachAttemptBringsItsOwnLeaseAndTtl) {
  Start(WithTtl(WithLease(By("a1"), absl::Seconds(2)), absl::Hours(5)));
  Advance(absl::Seconds(2));
  const BeginCommand second =
      WithTtl(WithLease(By("a2"), absl::Seconds(7)), absl::Hours(1));
  const int64_t fence = Start(second);
  EXPECT_EQ(Get<InProgress>(store_.Begin(By("a3"))).lease_expires_at,
            Now() + absl::Seconds(7));
  const auto completed = store_.Complete(MakeComplete(second, fence));
  ASSERT_THAT(completed, IsOk());
  EXPECT_EQ(completed->expires_at, Now() + absl::Hours(1));
}

TEST_P(BeginContract, CompletedIsReplayedToEveryAttempt) {
  const int64_t fence = Start(By("a1"));
  Advance(absl::Seconds(1));
  const absl::Time completed_at = Now();
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  Advance(absl::Seconds(1));
  const Replay expected = {MakeResponse(), completed_at,
                           completed_at + absl::Hours(24)};
  // A late copy of the first Begin too: nothing is run, no fence is given.
  for (const char* attempt : {"a2", "a1"}) {
    const auto answer = store_.Begin(By(attempt));
    EXPECT_EQ(Get<Replay>(answer), expected) << attempt;
    EXPECT_EQ(answer->decided_at, Now());
  }
}

TEST_P(BeginContract, ReplayLastsToTheEndOfTtlAfterCompletion) {
  const BeginCommand begin = WithTtl(By("a1"), absl::Seconds(2));
  const int64_t fence = Start(begin);
  Advance(absl::Seconds(20));
  ASSERT_THAT(store_.Complete(MakeComplete(begin, fence)), IsOk());
  Advance(absl::Seconds(2) - absl::Microseconds(1));
  EXPECT_TRUE(Is<Replay>(store_.Begin(By("a2"))));
  Advance(absl::Microseconds(1));
  EXPECT_TRUE(Is<Started>(store_.Begin(By("a2"))));
}

TEST_P(BeginContract, ReleasedKeyIsFreeAtOnce) {
  const int64_t old_fence = Start(By("a1"));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), old_fence)), IsOk());
  const Started started = Get<Started>(store_.Begin(By("a2")));
  // In the same microsecond, even.
  EXPECT_THAT(started.fence, Gt(old_fence));
  EXPECT_EQ(started.attempt_number, 2);
  EXPECT_FALSE(started.taken_over);
  EXPECT_FALSE(started.resumed);
}

TEST_P(BeginContract, FenceGrowsThoughTheClockGoesBack) {
  const int64_t first = Start(By("a1"));
  Advance(-absl::Hours(1));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), first)), IsOk());
  const int64_t second = Start(By("a2"));
  EXPECT_THAT(second, Gt(first));
  Advance(absl::Hours(1));
}

TEST_P(BeginContract, AttemptIsUsedUpByItsRelease) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), fence)), IsOk());
  EXPECT_THAT(store_.Begin(By("a1")), RefusedAs(Reason::kAttemptFinished));
  // Whoever holds the key by now.
  const BeginCommand second = Holding(By("a2"));
  const int64_t second_fence = Start(second);
  EXPECT_THAT(store_.Begin(By("a1")), RefusedAs(Reason::kAttemptFinished));
  Advance(absl::Seconds(30));
  EXPECT_THAT(store_.Begin(By("a1")), RefusedAs(Reason::kAttemptFinished));
  EXPECT_EQ(Look(second).attempt_number, 2);
  // There is something to replay at last.
  ASSERT_THAT(store_.Complete(MakeComplete(second, second_fence)), IsOk());
  EXPECT_TRUE(Is<Replay>(store_.Begin(By("a1"))));
}

TEST_P(BeginContract, SixtyFourFinishedAttemptsAreRemembered) {
  for (int i = 1; i <= 65; ++i) {
    const BeginCommand begin = By(absl::StrCat("a", i));
    const int64_t fence = Start(begin);
    ASSERT_THAT(store_.Release(MakeRelease(begin, fence)), IsOk());
  }
  EXPECT_THAT(store_.Begin(By("a2")), RefusedAs(Reason::kAttemptFinished));
  EXPECT_THAT(store_.Begin(By("a65")), RefusedAs(Reason::kAttemptFinished));
  EXPECT_EQ(Get<Started>(store_.Begin(By("a1"))).attempt_number, 66);
}

TEST_P(BeginContract, TakenOverSticksUntilCompleted) {
  const int64_t second = TakeOver(By("a1"), By("a2"));
  // A repetition, a release and yet another holder later it still holds.
  EXPECT_TRUE(Get<Started>(store_.Begin(By("a2"))).taken_over);
  ASSERT_THAT(store_.Release(MakeRelease(By("a2"), second)), IsOk());
  const Started third = Get<Started>(store_.Begin(By("a3")));
  EXPECT_TRUE(third.taken_over);
  EXPECT_EQ(third.attempt_number, 3);
  ASSERT_THAT(store_.Release(MakeRelease(By("a3"), third.fence)), IsOk());
  EXPECT_TRUE(Get<Started>(store_.Begin(By("a4"))).taken_over);
}

TEST_P(BeginContract, TakenOverEndsWithTheRecord) {
  const BeginCommand second = WithTtl(By("a2"), absl::Seconds(1));
  const int64_t fence = TakeOver(By("a1"), second);
  ASSERT_THAT(store_.Complete(MakeComplete(second, fence)), IsOk());
  Advance(absl::Seconds(1));
  EXPECT_FALSE(Get<Started>(store_.Begin(By("a3"))).taken_over);
}

TEST_P(BeginContract, RecordInProgressExpiresTtlAfterItsLease) {
  const int64_t old_fence =
      Start(WithTtl(WithLease(By("a1"), absl::Seconds(2)), absl::Seconds(5)));
  Advance(absl::Seconds(7) - absl::Microseconds(1));
  EXPECT_TRUE(Is<Mismatch>(store_.Begin(OtherBy("a2"))));
  Advance(absl::Microseconds(1));
  // A new record: nothing was taken over, and the request may be another.
  const Started started = Get<Started>(store_.Begin(OtherBy("a2")));
  EXPECT_EQ(started.attempt_number, 1);
  EXPECT_FALSE(started.taken_over);
  EXPECT_THAT(started.fence, Gt(old_fence));
}

TEST_P(BeginContract, ExpiredRecordsOwnAttemptStartsAnew) {
  const BeginCommand begin = WithTtl(By("a1"), absl::Seconds(1));
  const int64_t old_fence = Start(begin);
  Advance(absl::Seconds(31));
  const Started started = Get<Started>(store_.Begin(begin));
  EXPECT_FALSE(started.resumed);
  EXPECT_THAT(started.fence, Gt(old_fence));
}

TEST_P(BeginContract, CompletedRecordStartsAnewAfterItsWindow) {
  const BeginCommand begin = WithTtl(By("a1"), absl::Seconds(2));
  const int64_t old_fence = Start(begin);
  ASSERT_THAT(store_.Complete(MakeComplete(begin, old_fence)), IsOk());
  Advance(absl::Seconds(2));
  const Started started = Get<Started>(store_.Begin(OtherBy("a2")));
  EXPECT_EQ(started.attempt_number, 1);
  EXPECT_THAT(started.fence, Gt(old_fence));
  EXPECT_THAT(Look(By("a2")).created_at, Optional(Now()));
}

TEST_P(BeginContract, ReleasedRecordForgetsAllAfterItsWindow) {
  const BeginCommand begin = WithTtl(By("a1"), absl::Seconds(2));
  const int64_t fence = Start(begin);
  ASSERT_THAT(store_.Extend(With(MakeExtend(begin, fence),
                                 [](auto& c) { c.checkpoint = "half"; })),
              IsOk());
  ASSERT_THAT(store_.Release(MakeRelease(begin, fence)), IsOk());
  Advance(absl::Seconds(2));
  // The request, the used up attempt and its checkpoint.
  const Started started = Get<Started>(store_.Begin(OtherBy("a1")));
  EXPECT_EQ(started.attempt_number, 1);
  EXPECT_EQ(started.checkpoint, "");
  EXPECT_THAT(started.fence, Gt(fence));
}

TEST_P(BeginContract, RecordLivesADayUnlessAskedOtherwise) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  Advance(absl::Hours(24) - absl::Microseconds(1));
  EXPECT_TRUE(Is<Replay>(store_.Begin(By("a2"))));
  Advance(absl::Microseconds(1));
  EXPECT_TRUE(Is<Started>(store_.Begin(By("a2"))));
}

TEST_P(BeginContract, ReleasedKeyMayBringAnotherRequestIfUnbound) {
  const int64_t fence = Start(By("a1"));
  ReleaseCommand release = MakeRelease(By("a1"), fence);
  ASSERT_THAT(store_.Release(release), IsOk());
  EXPECT_TRUE(Is<Mismatch>(store_.Begin(OtherBy("a2"))));
  release.forget_fingerprint = true;
  ASSERT_THAT(store_.Release(release), IsOk());
  EXPECT_EQ(Get<Started>(store_.Begin(OtherBy("a2"))).attempt_number, 2);
  // Which binds it anew.
  EXPECT_TRUE(Is<Mismatch>(store_.Begin(By("a3"))));
}

// The states that a record can be in, by what leads to them.
class MismatchContract : public StoreContract {
 protected:
  // A second request with the same key, by fingerprint or by operation; by the
  // holder's own attempt id as well as by another's.
  void ExpectMismatches(absl::Time first_seen_at) {
    const LookupAnswer before = Look(By("a1"));
    for (const char* attempt : {"a1", "a2"}) {
      const BeginCommand other_operation =
          With(By(attempt), [](auto& c) { c.operation = "POST /v1/refunds"; });
      for (const auto& other : {OtherBy(attempt), other_operation}) {
        const auto answer = store_.Begin(other);
        EXPECT_EQ(Get<Mismatch>(answer), Mismatch{first_seen_at});
        EXPECT_EQ(answer->decided_at, Now());
      }
    }
    EXPECT_EQ(Look(By("a1")), before);
  }
};
DEDUPE_CONTRACT_SUITE(MismatchContract);

TEST_P(MismatchContract, FirstWhileInProgress) {
  const absl::Time began = Now();
  Start(By("a1"));
  Advance(absl::Seconds(1));
  ExpectMismatches(began);
}

TEST_P(MismatchContract, FirstAfterLapse) {
  const absl::Time began = Now();
  Start(By("a1"));
  Advance(absl::Seconds(31));
  ExpectMismatches(began);
}

TEST_P(MismatchContract, FirstAfterTakeover) {
  const absl::Time began = Now();
  TakeOver(By("a1"), By("a3"));
  ExpectMismatches(began);
}

TEST_P(MismatchContract, FirstInDoubt) {
  const absl::Time began = Now();
  Start(Holding(By("a1")));
  Advance(absl::Seconds(31));
  ExpectMismatches(began);
}

TEST_P(MismatchContract, FirstWhenReleased) {
  const absl::Time began = Now();
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), fence)), IsOk());
  Advance(absl::Seconds(1));
  ExpectMismatches(began);
}

TEST_P(MismatchContract, FirstWhenCompleted) {
  const absl::Time began = Now();
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  Advance(absl::Seconds(1));
  ExpectMismatches(began);
}

}  // namespace
}  // namespace dedupe::testing
