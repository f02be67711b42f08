// Complete, Extend and Release: what a holder may do, and who is no holder any
// more. See store_contract.h.
#include <gmock/gmock.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tests/store/store_contract.h"

namespace dedupe::testing {
namespace {

using ::testing::Eq;
using ::testing::Gt;
using ::testing::Optional;

class CompleteContract : public StoreContract {};
DEDUPE_CONTRACT_SUITE(CompleteContract);
class ExtendContract : public StoreContract {};
DEDUPE_CONTRACT_SUITE(ExtendContract);
class ReleaseContract : public StoreContract {};
DEDUPE_CONTRACT_SUITE(ReleaseContract);

BeginCommand Holding(BeginCommand begin) {
  begin.on_lease_expiry = OnLeaseExpiry::kHold;
  return begin;
}

ExtendCommand WithCheckpoint(ExtendCommand extend, std::string checkpoint) {
  extend.checkpoint = std::move(checkpoint);
  return extend;
}

ExtendCommand ForAnother(ExtendCommand extend, absl::Duration lease) {
  extend.lease = lease;
  return extend;
}

TEST_P(CompleteContract, StoresTheResponseForTtlFromNow) {
  const BeginCommand begin =
      With(By("a1"), [](auto& c) { c.ttl = absl::Seconds(3); });
  const int64_t fence = Start(begin);
  Advance(absl::Seconds(20));
  const auto answer = store_.Complete(MakeComplete(begin, fence));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(*answer,
            (CompleteAnswer{Now(), Now() + absl::Seconds(3), false, Now()}));
}

TEST_P(CompleteContract, RepetitionChangesNothing) {
  const int64_t fence = Start(By("a1"));
  const absl::Time completed_at = Now();
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  Advance(absl::Hours(1));
  const auto again = store_.Complete(MakeComplete(By("a1"), fence));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(*again,
            (CompleteAnswer{completed_at, completed_at + absl::Hours(24), true,
                            Now()}));
}

TEST_P(CompleteContract, AnotherResponseIsRefusedAndTheFirstStays) {
  const int64_t fence = Start(By("a1"));
  const CompleteCommand first = MakeComplete(By("a1"), fence);
  ASSERT_THAT(store_.Complete(first), IsOk());
  // Each differs in one thing only.
  const auto differing = [&first](auto change) {
    return With(first, [&](auto& c) { change(c.response); });
  };
  for (const CompleteCommand& other : {
           differing([](Response& r) { r.code = 202; }),
           differing([](Response& r) { r.body = "done "; }),
           differing([](Response& r) { r.body = ""; }),
           differing([](Response& r) { r.headers.clear(); }),
           differing([](Response& r) { r.headers[0].name = "Content-Type"; }),
           differing([](Response& r) { r.headers[0].value += ";q=1"; }),
           differing([](Response& r) { r.headers.push_back(r.headers[0]); }),
           differing([](Response& r) {
             r.body = "";
             r.body_omitted = true;
           }),
       }) {
    EXPECT_THAT(store_.Complete(other), RefusedAs(Reason::kResponseConflict));
  }
  EXPECT_THAT(Look(By("a1")).response, Optional(first.response));
}

TEST_P(CompleteContract, LapsedLeaseMayStillComplete) {
  const int64_t fence = Start(By("a1"));
  Advance(absl::Hours(23));
  EXPECT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  EXPECT_TRUE(Is<Replay>(store_.Begin(By("a2"))));
}

TEST_P(CompleteContract, EndsDoubt) {
  const BeginCommand holding = Holding(By("a1"));
  const int64_t fence = Start(holding);
  Advance(absl::Hours(24 * 40));
  ASSERT_TRUE(Is<InDoubt>(store_.Begin(By("a2"))));
  EXPECT_THAT(store_.Complete(MakeComplete(holding, fence)), IsOk());
  EXPECT_EQ(Get<Replay>(store_.Begin(By("a2"))).expires_at,
            Now() + absl::Hours(24));
}

TEST_P(CompleteContract, RefusedAfterTakeover) {
  const BeginCommand first = By("a1");
  const int64_t old_fence = Start(first);
  Advance(absl::Seconds(30));
  const int64_t new_fence = Start(By("a2"));
  EXPECT_THAT(store_.Complete(MakeComplete(first, old_fence, "old")),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_THAT(store_.Complete(MakeComplete(By("a2"), new_fence, "new")),
              IsOk());
  // Not even with the very response that is stored.
  EXPECT_THAT(store_.Complete(MakeComplete(first, old_fence, "new")),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_EQ(Look(By("a2")).response, MakeResponse("new"));
}

TEST_P(CompleteContract, NeedsBothAttemptAndFence) {
  const int64_t fence = Start(By("a1"));
  for (const int64_t wrong : {fence - 1, fence + 1, int64_t{1}}) {
    EXPECT_THAT(store_.Complete(MakeComplete(By("a1"), wrong)),
                RefusedAs(Reason::kLeaseLost));
  }
  EXPECT_THAT(store_.Complete(MakeComplete(By("a2"), fence)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_EQ(Look(By("a1")).state, RecordState::kInProgress);
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  EXPECT_THAT(store_.Complete(MakeComplete(By("a1"), fence - 1)),
              RefusedAs(Reason::kLeaseLost));
}

TEST_P(CompleteContract, RefusedAfterRelease) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), fence)), IsOk());
  EXPECT_THAT(store_.Complete(MakeComplete(By("a1"), fence)),
              RefusedAs(Reason::kLeaseLost));
  const int64_t second = Start(By("a2"));
  EXPECT_THAT(store_.Complete(MakeComplete(By("a1"), fence)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_THAT(store_.Release(MakeRelease(By("a1"), fence)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_THAT(store_.Complete(MakeComplete(By("a2"), second)), IsOk());
}

TEST_P(CompleteContract, UnknownKeyIsRefusedAndStaysUnknown) {
  EXPECT_THAT(store_.Complete(MakeComplete(By("a1"), 1)),
              RefusedAs(Reason::kKeyUnknown));
  EXPECT_EQ(Look(By("a1")).state, RecordState::kAbsent);
}

TEST_P(CompleteContract, PastItsWindowTheKeyIsUnknown) {
  const BeginCommand begin = With(By("a1"), [](auto& c) {
    c.lease = absl::Seconds(2);
    c.ttl = absl::Seconds(2);
  });
  const int64_t fence = Start(begin);
  Advance(absl::Seconds(4));
  EXPECT_THAT(store_.Complete(MakeComplete(begin, fence)),
              RefusedAs(Reason::kKeyUnknown));
  const int64_t second = Start(begin);
  ASSERT_THAT(store_.Complete(MakeComplete(begin, second)), IsOk());
  Advance(absl::Seconds(2));
  EXPECT_THAT(store_.Complete(MakeComplete(begin, second)),
              RefusedAs(Reason::kKeyUnknown));
}

TEST_P(ExtendContract, RenewsTheLeaseFromNow) {
  const int64_t fence = Start(By("a1"));
  Advance(absl::Seconds(20));
  auto answer = store_.Extend(MakeExtend(By("a1"), fence));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(*answer, (ExtendAnswer{Now() + absl::Seconds(30), Now()}));
  answer =
      store_.Extend(ForAnother(MakeExtend(By("a1"), fence), absl::Minutes(15)));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->lease_expires_at, Now() + absl::Minutes(15));
  Advance(absl::Minutes(14));
  EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a2"))));
}

TEST_P(ExtendContract, NeverShortens) {
  const absl::Time began = Now();
  const int64_t fence = Start(By("a1"));
  Advance(absl::Seconds(1));
  const auto answer = store_.Extend(
      ForAnother(MakeExtend(By("a1"), fence), absl::Milliseconds(100)));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->lease_expires_at, began + absl::Seconds(30));
  EXPECT_THAT(Look(By("a1")).expires_at,
              Optional(began + absl::Seconds(30) + absl::Hours(24)));
}

TEST_P(ExtendContract, RecordLivesTtlBeyondTheNewLease) {
  const int64_t fence = Start(By("a1"));
  Advance(absl::Seconds(10));
  ASSERT_THAT(store_.Extend(MakeExtend(By("a1"), fence)), IsOk());
  EXPECT_THAT(Look(By("a1")).expires_at,
              Optional(Now() + absl::Seconds(30) + absl::Hours(24)));
}

TEST_P(ExtendContract, NextHolderReceivesTheCheckpoint) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(
      store_.Extend(WithCheckpoint(MakeExtend(By("a1"), fence), "page 7")),
      IsOk());
  // An empty one keeps it.
  ASSERT_THAT(store_.Extend(MakeExtend(By("a1"), fence)), IsOk());
  EXPECT_EQ(Get<Started>(store_.Begin(By("a1"))).checkpoint, "page 7");
  Advance(absl::Seconds(30));
  const Started second = Get<Started>(store_.Begin(By("a2")));
  EXPECT_EQ(second.checkpoint, "page 7");
  ASSERT_THAT(store_.Release(MakeRelease(By("a2"), second.fence)), IsOk());
  EXPECT_EQ(Get<Started>(store_.Begin(By("a3"))).checkpoint, "page 7");
}

TEST_P(ExtendContract, LapsedLeaseIsRenewed) {
  const int64_t fence = Start(By("a1"));
  Advance(absl::Hours(1));
  EXPECT_THAT(store_.Extend(MakeExtend(By("a1"), fence)), IsOk());
  EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a2"))));
}

TEST_P(ExtendContract, EndsDoubtUntilTheNextLapse) {
  const BeginCommand holding = Holding(By("a1"));
  const int64_t fence = Start(holding);
  Advance(absl::Hours(1));
  ASSERT_THAT(store_.Extend(MakeExtend(holding, fence)), IsOk());
  EXPECT_THAT(Look(holding).state, RecordState::kInProgress);
  EXPECT_THAT(Look(holding).expires_at, Eq(std::nullopt));
  Advance(absl::Seconds(30));
  EXPECT_TRUE(Is<InDoubt>(store_.Begin(By("a2"))));
}

TEST_P(ExtendContract, RefusedAfterTakeover) {
  const BeginCommand first = By("a1");
  const int64_t old_fence = Start(first);
  Advance(absl::Seconds(30));
  const int64_t new_fence = Start(By("a2"));
  EXPECT_THAT(store_.Extend(MakeExtend(first, old_fence)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_THAT(store_.Extend(MakeExtend(first, new_fence)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_THAT(store_.Extend(MakeExtend(By("a2"), old_fence)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_THAT(store_.Extend(MakeExtend(By("a2"), new_fence)), IsOk());
}

TEST_P(ExtendContract, LateHeartbeatDoesNotReviveAFinishedRecord) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  const LookupAnswer before = Look(By("a1"));
  EXPECT_THAT(
      store_.Extend(WithCheckpoint(MakeExtend(By("a1"), fence), "late")),
      RefusedAs(Reason::kAlreadyCompleted));
  EXPECT_THAT(store_.Extend(MakeExtend(By("a1"), fence + 1)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_EQ(Look(By("a1")), before);
  EXPECT_THAT(before.lease_expires_at, Eq(std::nullopt));
}

TEST_P(ExtendContract, RefusedAfterRelease) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), fence)), IsOk());
  EXPECT_THAT(store_.Extend(MakeExtend(By("a1"), fence)),
              RefusedAs(Reason::kLeaseLost));
}

TEST_P(ExtendContract, UnknownKeyIsRefused) {
  EXPECT_THAT(store_.Extend(MakeExtend(By("a1"), 1)),
              RefusedAs(Reason::kKeyUnknown));
  const BeginCommand begin =
      With(By("a1"), [](auto& c) { c.ttl = absl::Seconds(1); });
  const int64_t fence = Start(begin);
  Advance(absl::Seconds(31));
  EXPECT_THAT(store_.Extend(MakeExtend(begin, fence)),
              RefusedAs(Reason::kKeyUnknown));
}

TEST_P(ReleaseContract, KeepsTheRecordForTtlFromNow) {
  const BeginCommand begin =
      With(By("a1"), [](auto& c) { c.ttl = absl::Seconds(3); });
  const int64_t fence = Start(begin);
  Advance(absl::Seconds(20));
  const auto answer = store_.Release(MakeRelease(begin, fence));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(*answer, (ReleaseAnswer{Now() + absl::Seconds(3), Now()}));
}

TEST_P(ReleaseContract, RepetitionChangesNothing) {
  const int64_t fence = Start(By("a1"));
  const absl::Time released_at = Now();
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), fence)), IsOk());
  Advance(absl::Hours(1));
  const auto again = store_.Release(MakeRelease(By("a1"), fence));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(*again, (ReleaseAnswer{released_at + absl::Hours(24), Now()}));
}

TEST_P(ReleaseContract, FreesALapsedLeaseWithoutTakeover) {
  const int64_t fence = Start(By("a1"));
  Advance(absl::Hours(1));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), fence)), IsOk());
  EXPECT_FALSE(Get<Started>(store_.Begin(By("a2"))).taken_over);
}

TEST_P(ReleaseContract, EndsDoubt) {
  const BeginCommand holding = Holding(By("a1"));
  const int64_t fence = Start(holding);
  Advance(absl::Hours(48));
  ASSERT_THAT(store_.Release(MakeRelease(holding, fence)), IsOk());
  EXPECT_FALSE(Get<Started>(store_.Begin(By("a2"))).taken_over);
}

TEST_P(ReleaseContract, RefusedToWhoeverLostTheKey) {
  const BeginCommand first = By("a1");
  const int64_t old_fence = Start(first);
  Advance(absl::Seconds(30));
  const int64_t new_fence = Start(By("a2"));
  for (const ReleaseCommand& stale :
       {MakeRelease(first, old_fence), MakeRelease(first, new_fence),
        MakeRelease(By("a2"), old_fence)}) {
    EXPECT_THAT(store_.Release(stale), RefusedAs(Reason::kLeaseLost));
  }
  EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a3"))));
  EXPECT_THAT(store_.Extend(MakeExtend(By("a2"), new_fence)), IsOk());
}

TEST_P(ReleaseContract, LateCopyOfAReleaseDoesNotHitTheNextHolder) {
  const int64_t fence = Start(By("a1"));
  ReleaseCommand release = MakeRelease(By("a1"), fence);
  ASSERT_THAT(store_.Release(release), IsOk());
  const int64_t second = Start(By("a2"));
  release.forget_fingerprint = true;
  EXPECT_THAT(store_.Release(release), RefusedAs(Reason::kLeaseLost));
  EXPECT_TRUE(Is<Mismatch>(store_.Begin(OtherBy("a3"))));
  EXPECT_THAT(store_.Complete(MakeComplete(By("a2"), second)), IsOk());
}

TEST_P(ReleaseContract, RefusedAfterCompletion) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  EXPECT_THAT(store_.Release(MakeRelease(By("a1"), fence)),
              RefusedAs(Reason::kAlreadyCompleted));
  EXPECT_THAT(store_.Release(MakeRelease(By("a2"), fence)),
              RefusedAs(Reason::kLeaseLost));
  EXPECT_TRUE(Is<Replay>(store_.Begin(By("a2"))));
}

TEST_P(ReleaseContract, UnknownKeyIsRefused) {
  EXPECT_THAT(store_.Release(MakeRelease(By("a1"), 1)),
              RefusedAs(Reason::kKeyUnknown));
  const BeginCommand begin =
      With(By("a1"), [](auto& c) { c.ttl = absl::Seconds(1); });
  const int64_t fence = Start(begin);
  ASSERT_THAT(store_.Release(MakeRelease(begin, fence)), IsOk());
  Advance(absl::Seconds(1));
  EXPECT_THAT(store_.Release(MakeRelease(begin, fence)),
              RefusedAs(Reason::kKeyUnknown));
}

TEST_P(ReleaseContract, NewHolderHasALargerFenceEachTime) {
  int64_t last = 0;
  for (const char* attempt : {"a1", "a2", "a3", "a4"}) {
    const int64_t fence = Start(By(attempt));
    EXPECT_THAT(fence, Gt(last));
    last = fence;
    ASSERT_THAT(store_.Release(MakeRelease(By(attempt), fence)), IsOk());
  }
}

}  // namespace
}  // namespace dedupe::testing
