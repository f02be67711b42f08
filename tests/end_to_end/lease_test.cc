// Leases: who may take a key over and when, and what becomes of the attempt
// that lost it. Leases are short here and run out by the database's clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/deployment.h"

namespace dedupe::testing {
namespace {

constexpr auto kPrecondition = grpc::StatusCode::FAILED_PRECONDITION;

class LeaseTest : public EndToEndTest {
 protected:
  static v1::BeginRequest Request(const std::string& attempt_id,
                                  absl::Duration lease = absl::Seconds(1)) {
    v1::BeginRequest request = BeginOf(Key(), attempt_id);
    *request.mutable_lease() = ToProto(lease);
    return request;
  }

  v1::Started Start(const v1::BeginRequest& request) {
    const BeginReply reply = client().Begin(request);
    EXPECT_THAT(reply, IsStarted());
    return reply.message.started();
  }

  // The second attempt, after the lease of the first has run out.
  v1::Started TakeOver(const v1::BeginRequest& first,
                       const v1::BeginRequest& second) {
    WaitUntilPast(Start(first).lease_expires_at());
    return Start(second);
  }

  static std::string Column(const std::string& expression) {
    return SqlValue(
        Shared().url(),
        absl::StrCat("SELECT ", expression, " FROM dedupe.record WHERE key = '",
                     Key(), "'"));
  }
};

TEST_F(LeaseTest, LapsedLeaseIsTakenOverWithLargerFence) {
  const v1::Started first = Start(Request("attempt-1"));
  absl::SleepFor(absl::Milliseconds(1200));
  const v1::Started second = Start(Request("attempt-2"));

  EXPECT_TRUE(second.taken_over());
  EXPECT_GT(second.fence(), first.fence());
  EXPECT_EQ(second.attempt_number(), 2);
  EXPECT_FALSE(second.resumed());
}

// A worker that died must not lock its key for the whole retention.
TEST_F(LeaseTest, DeadWorkersKeyIsFreeAfterTheLease) {
  const v1::BeginRequest dead = Request("attempt-1", absl::Seconds(2));
  const v1::Started first = Start(dead);
  absl::SleepFor(absl::Seconds(1));
  EXPECT_THAT(client().Begin(Request("attempt-2")), IsInProgress());

  WaitUntilPast(first.lease_expires_at());
  const v1::BeginRequest heir = Request("attempt-3");
  const v1::Started third = Start(heir);
  EXPECT_GT(third.fence(), first.fence());
  EXPECT_THAT(client().Complete(CompleteOf(heir, third.fence(), "done")),
              IsOk());
}

TEST_F(LeaseTest, AttemptThatLostItsLeaseIsRefusedEverything) {
  const v1::BeginRequest old_attempt = Request("attempt-1");
  const v1::Started old_lease = Start(old_attempt);
  WaitUntilPast(old_lease.lease_expires_at());
  Start(Request("attempt-2", absl::Seconds(30)));

  EXPECT_THAT(
      client().Complete(CompleteOf(old_attempt, old_lease.fence(), "old")),
      IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Extend(ExtendOf(old_attempt, old_lease.fence())),
              IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Release(ReleaseOf(old_attempt, old_lease.fence())),
              IsRefused(kPrecondition, "LEASE_LOST"));
}

TEST_F(LeaseTest, OnlyTheNewHoldersResponseIsKept) {
  const v1::BeginRequest first = Request("attempt-1");
  const v1::Started lease = Start(first);
  WaitUntilPast(lease.lease_expires_at());
  const v1::BeginRequest second = Request("attempt-2");
  const v1::Started next_lease = Start(second);

  EXPECT_THAT(client().Complete(CompleteOf(first, lease.fence(), "old")),
              IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Complete(CompleteOf(second, next_lease.fence(), "new")),
              IsOk());
  const LookupReply lookup = client().Lookup(LookupOf(first));
  EXPECT_EQ(lookup.message.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(lookup.message.response().body(), "new");
}

// An old holder must not free the lock of its successor.
TEST_F(LeaseTest, OldHolderCannotReleaseItsSuccessor) {
  const v1::BeginRequest first = Request("attempt-1");
  const v1::Started lease = Start(first);
  WaitUntilPast(lease.lease_expires_at());
  const v1::BeginRequest second = Request("attempt-2", absl::Seconds(30));
  const v1::Started next_lease = Start(second);

  EXPECT_THAT(client().Release(ReleaseOf(first, lease.fence())),
              IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Begin(Request("attempt-3")), IsInProgress());
  EXPECT_THAT(client().Extend(ExtendOf(second, next_lease.fence())), IsOk());
}

// An update that matched no row must not be reported as a success.
TEST_F(LeaseTest, CompletionOfADeletedRecordIsRefused) {
  const v1::BeginRequest first = Request("attempt-1");
  const v1::Started lease = Start(first);
  Sql(Shared().url(),
      absl::StrCat("DELETE FROM dedupe.record WHERE key = '", Key(), "'"));

  EXPECT_THAT(client().Complete(CompleteOf(first, lease.fence(), "lost")),
              IsRefused(grpc::StatusCode::NOT_FOUND, "KEY_UNKNOWN"));
  EXPECT_EQ(client().StateOf(first), v1::RECORD_STATE_ABSENT);
  EXPECT_THAT(client().Begin(Request("attempt-2")), IsStarted());
}

// Release must not forget how far the fence had come.
TEST_F(LeaseTest, ReleasedAttemptCannotSettleTheNextOne) {
  const v1::BeginRequest first = Request("attempt-1");
  const v1::Started lease = Start(first);
  EXPECT_THAT(client().Release(ReleaseOf(first, lease.fence())), IsOk());
  const v1::BeginRequest second = Request("attempt-2", absl::Seconds(30));
  const v1::Started next_lease = Start(second);

  EXPECT_GT(next_lease.fence(), lease.fence());
  EXPECT_FALSE(next_lease.taken_over());
  EXPECT_THAT(client().Complete(CompleteOf(first, lease.fence(), "old")),
              IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Release(ReleaseOf(first, lease.fence())),
              IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Complete(CompleteOf(second, next_lease.fence(), "new")),
              IsOk());
}

TEST_F(LeaseTest, AttemptIsUsedUpByItsOwnRelease) {
  const v1::BeginRequest first = Request("attempt-1");
  EXPECT_THAT(client().Release(ReleaseOf(first, Start(first).fence())), IsOk());

  EXPECT_THAT(client().Begin(first),
              IsRefused(kPrecondition, "ATTEMPT_FINISHED"));
}

// A late heartbeat must not revive a finished record.
TEST_F(LeaseTest, ExtendAfterCompletionIsRefused) {
  const v1::BeginRequest first = Request("attempt-1");
  const v1::Started lease = Start(first);
  EXPECT_THAT(client().Complete(CompleteOf(first, lease.fence(), "done")),
              IsOk());

  EXPECT_THAT(client().Extend(ExtendOf(first, lease.fence())),
              IsRefused(kPrecondition, "ALREADY_COMPLETED"));
  const LookupReply lookup = client().Lookup(LookupOf(first));
  EXPECT_EQ(lookup.message.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(lookup.message.response().body(), "done");
  EXPECT_FALSE(lookup.message.has_lease_expires_at());
  EXPECT_EQ(Column("lease_expires_at"), "NULL");
}

TEST_F(LeaseTest, LapsedLeaseThatNobodyTookMayComplete) {
  const v1::BeginRequest first = Request("attempt-1", absl::Milliseconds(100));
  const v1::Started lease = Start(first);
  WaitUntilPast(lease.lease_expires_at());

  EXPECT_THAT(client().Complete(CompleteOf(first, lease.fence(), "late")),
              IsOk());
}

TEST_F(LeaseTest, LapsedLeaseThatNobodyTookIsResumedByItsOwnAttempt) {
  const v1::BeginRequest first = Request("attempt-1", absl::Milliseconds(100));
  const v1::Started lease = Start(first);
  WaitUntilPast(lease.lease_expires_at());

  const v1::Started again = Start(first);
  EXPECT_TRUE(again.resumed());
  EXPECT_FALSE(again.taken_over());
  EXPECT_EQ(again.fence(), lease.fence());
}

TEST_F(LeaseTest, ExtendNeverShortensALease) {
  const v1::BeginRequest first = Request("attempt-1", absl::Seconds(60));
  const v1::Started lease = Start(first);
  v1::ExtendRequest extend = ExtendOf(first, lease.fence());
  *extend.mutable_lease() = ToProto(absl::Seconds(1));

  const ExtendReply reply = client().Extend(extend);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(FromProto(reply.message.lease_expires_at()),
            FromProto(lease.lease_expires_at()));
}

TEST_F(LeaseTest, SuccessorReceivesTheCheckpoint) {
  const v1::BeginRequest first = Request("attempt-1", absl::Milliseconds(200));
  v1::ExtendRequest extend = ExtendOf(first, Start(first).fence());
  *extend.mutable_lease() = ToProto(absl::Milliseconds(100));
  extend.set_checkpoint(std::string("page 7\0\xff", 8));
  const ExtendReply extended = client().Extend(extend);
  ASSERT_THAT(extended, IsOk());
  WaitUntilPast(extended.message.lease_expires_at());

  EXPECT_EQ(Start(Request("attempt-2")).checkpoint(), extend.checkpoint());
}

TEST_F(LeaseTest, HeldKeyIsInDoubtAfterTheLease) {
  v1::BeginRequest first = Request("attempt-1", absl::Milliseconds(200));
  first.set_on_lease_expiry(v1::ON_LEASE_EXPIRY_HOLD);
  const v1::Started lease = Start(first);
  WaitUntilPast(lease.lease_expires_at());

  const BeginReply second = client().Begin(Request("attempt-2"));
  ASSERT_THAT(second, IsInDoubt());
  EXPECT_EQ(FromProto(second.message.in_doubt().since()),
            FromProto(lease.lease_expires_at()));
  EXPECT_EQ(second.message.in_doubt().attempt_number(), 1);
  EXPECT_EQ(client().StateOf(first), v1::RECORD_STATE_IN_DOUBT);
}

TEST_F(LeaseTest, HolderMayCompleteOutOfDoubt) {
  v1::BeginRequest first = Request("attempt-1", absl::Milliseconds(200));
  first.set_on_lease_expiry(v1::ON_LEASE_EXPIRY_HOLD);
  const v1::Started lease = Start(first);
  WaitUntilPast(lease.lease_expires_at());
  ASSERT_THAT(client().Begin(Request("attempt-2")), IsInDoubt());

  EXPECT_THAT(client().Complete(CompleteOf(first, lease.fence(), "done")),
              IsOk());
  EXPECT_THAT(client().Begin(Request("attempt-2")), IsReplayOf("done"));
}

// What is left of a remaining time of 0 must not be taken for "not given".
struct LeaseCase {
  const char* name;
  std::optional<absl::Duration> lease;
  std::optional<absl::Duration> granted;
};

class LeaseBoundsTest : public LeaseTest,
                        public ::testing::WithParamInterface<LeaseCase> {};

TEST_P(LeaseBoundsTest, LeaseIsGrantedOrRefusedWithoutATrace) {
  v1::BeginRequest request = BeginOf(Key(), "attempt-1");
  if (GetParam().lease.has_value()) {
    *request.mutable_lease() = ToProto(*GetParam().lease);
  }
  const BeginReply reply = client().Begin(request);

  if (GetParam().granted.has_value()) {
    ASSERT_THAT(reply, IsStarted());
    EXPECT_EQ(FromProto(reply.message.started().lease_expires_at()) -
                  FromProto(reply.message.decided_at()),
              *GetParam().granted);
  } else {
    EXPECT_THAT(reply,
                IsRefused(grpc::StatusCode::INVALID_ARGUMENT, "LEASE_RANGE"));
    EXPECT_EQ(DetailsOf(reply.status).field, "lease");
    EXPECT_EQ(client().StateOf(request), v1::RECORD_STATE_ABSENT);
  }
  EXPECT_EQ(SqlValue(Shared().url(),
                     "SELECT count(*) FROM dedupe.record WHERE"
                     " state = 'in_progress' AND lease_expires_at IS NULL"),
            "0");
}

INSTANTIATE_TEST_SUITE_P(
    All, LeaseBoundsTest,
    ::testing::Values(
        LeaseCase{"Unset", std::nullopt, absl::Seconds(30)},
        LeaseCase{"Zero", absl::ZeroDuration(), std::nullopt},
        LeaseCase{"Negative", absl::Milliseconds(-1), std::nullopt},
        LeaseCase{"OneMillisecond", absl::Milliseconds(1), std::nullopt},
        LeaseCase{"BelowLeast", absl::Microseconds(99'999), std::nullopt},
        LeaseCase{"Least", absl::Milliseconds(100), absl::Milliseconds(100)},
        LeaseCase{"Most", absl::Minutes(15), absl::Minutes(15)},
        LeaseCase{"AboveMost", absl::Minutes(15) + absl::Milliseconds(1),
                  std::nullopt}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace dedupe::testing
