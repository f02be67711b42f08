// What callers are told of a key, late and repeated callers included.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/deployment.h"

namespace dedupe::testing {
namespace {

class OutcomeTest : public EndToEndTest {
 protected:
  static std::string Row() {
    return SqlValue(Shared().url(),
                    absl::StrCat("SELECT coalesce(min(md5(r::text ||"
                                 " r.xmin::text)), 'none') FROM dedupe.record"
                                 " AS r WHERE key = '",
                                 Key(), "'"));
  }
};

// A late copy of the Begin that started it all must not start a second run.
TEST_F(OutcomeTest, LateCopyOfTheFirstBeginIsReplayed) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const std::string recorded = begin.SerializeAsString();
  const int64_t fence = client().Begin(begin).message.started().fence();
  ASSERT_THAT(client().Complete(CompleteOf(begin, fence, "done")), IsOk());
  const std::string row = Row();

  const RawReply late =
      CallRaw(client().channel(), MethodPath("Begin"), recorded);
  v1::BeginResponse response;
  ASSERT_TRUE(response.ParseFromString(late.message));
  EXPECT_EQ(response.replay().response().body(), "done");
  EXPECT_EQ(Row(), row);
}

TEST_F(OutcomeTest, LookupTellsWhatBecameOfAKeyAndChangesNothing) {
  v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  *begin.mutable_ttl() = ToProto(absl::Milliseconds(500));
  EXPECT_EQ(client().StateOf(begin), v1::RECORD_STATE_ABSENT);
  EXPECT_EQ(Row(), "none");

  const BeginReply lease = client().Begin(begin);
  const std::string held = Row();
  LookupReply lookup = client().Lookup(LookupOf(begin));
  EXPECT_EQ(lookup.message.state(), v1::RECORD_STATE_IN_PROGRESS);
  EXPECT_EQ(FromProto(lookup.message.lease_expires_at()),
            FromProto(lease.message.started().lease_expires_at()));
  EXPECT_EQ(lookup.message.operation(), begin.operation());
  EXPECT_EQ(Row(), held);

  const CompleteReply completed = client().Complete(
      CompleteOf(begin, lease.message.started().fence(), "done"));
  const std::string settled = Row();
  lookup = client().Lookup(LookupOf(begin));
  EXPECT_EQ(lookup.message.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(lookup.message.response().body(), "done");
  EXPECT_EQ(FromProto(lookup.message.completed_at()),
            FromProto(completed.message.completed_at()));
  EXPECT_EQ(Row(), settled);

  WaitUntilPast(completed.message.expires_at());
  lookup = client().Lookup(LookupOf(begin));
  EXPECT_EQ(lookup.message.state(), v1::RECORD_STATE_ABSENT);
  EXPECT_FALSE(lookup.message.has_response());
  EXPECT_FALSE(lookup.message.has_created_at());
}

// Whoever may look must not be able to act in the holder's place.
TEST_F(OutcomeTest, NothingShownIsEnoughToSettleForTheHolder) {
  const v1::BeginRequest holder = BeginOf(Key(), "holders-secret-attempt");
  const int64_t fence = client().Begin(holder).message.started().fence();
  const BeginReply told = client().Begin(BeginOf(Key(), "attempt-2"));
  const LookupReply looked = client().Lookup(LookupOf(holder));
  ASSERT_THAT(told, IsInProgress());
  EXPECT_TRUE(told.message.in_progress().has_started_at());
  for (const std::string& text :
       {told.message.DebugString(), looked.message.DebugString()}) {
    EXPECT_EQ(text.find(holder.attempt_id()), std::string::npos);
    EXPECT_EQ(text.find(absl::StrCat(fence)), std::string::npos);
  }
  // Even a fence that was guessed needs the attempt.
  EXPECT_THAT(client().Complete(
                  CompleteOf(BeginOf(Key(), "attempt-2"), fence, "forged")),
              IsRefused(grpc::StatusCode::FAILED_PRECONDITION, "LEASE_LOST"));
}

// The holder is about to complete in a transaction of its own, beside the
// server, and its lease runs out just then.
TEST_F(OutcomeTest, LapsedLeaseOfAnOpenTransactionIsStillInProgress) {
  v1::BeginRequest first = BeginOf(Key(), "attempt-1");
  *first.mutable_lease() = ToProto(absl::Milliseconds(100));
  const BeginReply lease = client().Begin(first);
  ASSERT_THAT(lease, IsStarted());
  WaitUntilPast(lease.message.started().lease_expires_at());
  pqxx::connection connection(Shared().url());
  pqxx::work transaction(connection);
  transaction.exec(absl::StrCat(
      "SELECT dedupe.complete('acme', '", Key(), "', 'attempt-1', ",
      lease.message.started().fence(), ", 201, 'by the door')"));

  const BeginReply second = client().Begin(BeginOf(Key(), "attempt-2"));
  ASSERT_THAT(second, IsInProgress());
  EXPECT_GT(FromProto(second.message.in_progress().retry_after()),
            absl::ZeroDuration());
  transaction.commit();
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-2")),
              IsReplayOf("by the door"));
}

TEST_F(OutcomeTest, RolledBackCompletionLeavesTheKeyToTheNextAttempt) {
  v1::BeginRequest first = BeginOf(Key(), "attempt-1");
  *first.mutable_lease() = ToProto(absl::Milliseconds(100));
  const BeginReply lease = client().Begin(first);
  WaitUntilPast(lease.message.started().lease_expires_at());
  {
    pqxx::connection connection(Shared().url());
    pqxx::work transaction(connection);
    transaction.exec(absl::StrCat(
        "SELECT dedupe.complete('acme', '", Key(), "', 'attempt-1', ",
        lease.message.started().fence(), ", 201, 'never')"));
    transaction.abort();
  }
  const BeginReply second = client().Begin(BeginOf(Key(), "attempt-2"));
  ASSERT_THAT(second, IsStarted());
  EXPECT_TRUE(second.message.started().taken_over());
}

}  // namespace
}  // namespace dedupe::testing
