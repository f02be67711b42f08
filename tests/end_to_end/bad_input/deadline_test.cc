// Calls without a deadline, with one that is absurd or over, and calls that
// break off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/bad_input/bad_input_test.h"
#include "tests/end_to_end/http2_peer.h"
#include "tests/end_to_end/row_lock.h"

namespace dedupe::testing {
namespace {

using ::testing::AnyOf;

constexpr auto kCancelled = grpc::StatusCode::CANCELLED;

TEST_F(BadInputTest, B40CallWithoutADeadlineIsServed) {
  grpc::ClientContext context;
  v1::BeginResponse response;
  EXPECT_TRUE(client()
                  .stub()
                  .Begin(&context, BeginOf(Key(), "attempt-1"), &response)
                  .ok());
  EXPECT_TRUE(response.has_started());
}

// Ten seconds, which the manual promises, and what a busy machine adds.
TEST_F(BadInputTest, B40CallWithoutADeadlineGetsTheServersOwn) {
  const Holding held = Hold();
  ASSERT_THAT(client().Release(ReleaseOf(held.begin, held.started.fence())),
              IsOk());
  const RowLock lock(Shared().url(), Key());
  Http2Peer peer(Shared().server().address());
  const absl::Time sent = absl::Now();
  peer.SendPreface();
  peer.SendHeaders(MethodPath("Begin"));
  peer.SendData(GrpcFrame(BeginOf(Key(), "attempt-2").SerializeAsString()));
  const Http2Peer::Outcome outcome = peer.Read(absl::Seconds(15));

  // The first if a statement was under way just then; both leave it open.
  EXPECT_THAT(outcome.status,
              AnyOf(grpc::UNAVAILABLE, grpc::DEADLINE_EXCEEDED));
  EXPECT_GE(absl::Now() - sent, absl::Seconds(9));
  EXPECT_LE(absl::Now() - sent, absl::Seconds(13));
}

TEST_F(BadInputTest, B41CallWhoseTimeIsOverLeavesNoTrace) {
  EXPECT_EQ(client()
                .Begin(BeginOf(Key(), "attempt-1"), absl::Seconds(-1))
                .status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(CountRows(), "0");
}

TEST_F(BadInputTest, B42LongDeadlinesAreServedLikeAnyOther) {
  EXPECT_THAT(client().Begin(BeginOf(Key("/hour"), "a"), absl::Hours(1)),
              IsStarted());
  EXPECT_THAT(
      client().Begin(BeginOf(Key("/century"), "a"), absl::Hours(24 * 36'500)),
      IsStarted());
}

// Whether it took effect or not, Lookup tells, and the same attempt finds the
// key its own.
TEST_F(BadInputTest, B44LookupTellsWhatBecameOfACancelledBegin) {
  int cancelled = 0;
  for (int i = 0; i < 50; ++i) {
    const v1::BeginRequest begin =
        BeginOf(Key(absl::StrCat("/", i)), "attempt-1");
    PendingBegin pending(client(), begin);
    absl::SleepFor(absl::Microseconds(20 * i));
    pending.Cancel();
    const BeginReply& reply = pending.reply();
    ASSERT_THAT(reply.status.error_code(), AnyOf(grpc::OK, kCancelled));
    cancelled += reply.status.ok() ? 0 : 1;

    const v1::RecordState audit = client().StateOf(begin);
    const Holding held = Hold(begin);
    EXPECT_EQ(held.started.attempt_number(), 1);
    if (reply.status.ok()) {
      EXPECT_EQ(audit, v1::RECORD_STATE_IN_PROGRESS);
      EXPECT_EQ(held.started.fence(), reply.message.started().fence());
    }
    if (audit == v1::RECORD_STATE_IN_PROGRESS) {
      EXPECT_TRUE(held.started.resumed());
    } else {
      // It may still have been on its way.
      EXPECT_EQ(audit, v1::RECORD_STATE_ABSENT);
    }
    EXPECT_THAT(Complete(held, "done"), IsOk());
  }
  EXPECT_GT(cancelled, 0);
}

// Caught in the middle for certain: it waits for a lock. The record shows no
// trace of it, and will show none.
TEST_F(BadInputTest, B44BeginCancelledBeforeItsTurnNeverHappens) {
  const Holding held = Hold();
  ASSERT_THAT(client().Release(ReleaseOf(held.begin, held.started.fence())),
              IsOk());
  auto lock = std::make_unique<RowLock>(Shared().url(), Key());
  PendingBegin pending(client(), BeginOf(Key(), "attempt-2"));
  ASSERT_FALSE(pending.WaitFor(absl::Milliseconds(200)));
  pending.Cancel();
  EXPECT_EQ(pending.reply().status.error_code(), kCancelled);
  // Longer than the statement in hand may wait for the lock.
  PendingBegin next(client(), BeginOf(Key(), "attempt-3"));
  ASSERT_FALSE(next.WaitFor(absl::Seconds(1)));
  lock.reset();

  ASSERT_THAT(next.reply(), IsStarted());
  EXPECT_EQ(next.reply().message.started().attempt_number(), 2);
}

// The reply goes nowhere, and so does part of the request.
TEST_F(BadInputTest, B44LookupTellsWhatBecameOfACompletionThatBrokeOff) {
  for (int i = 0; i < 20; ++i) {
    const Holding held = Hold(BeginOf(Key(absl::StrCat("/", i)), "attempt-1"));
    {
      Http2Peer peer(Shared().server().address());
      peer.SendPreface();
      peer.SendHeaders(MethodPath("Complete"));
      peer.SendData(
          GrpcFrame(CompleteOf(held.begin, held.started.fence(), "done")
                        .SerializeAsString()));
      absl::SleepFor(absl::Microseconds(100 * i));
    }
    const LookupReply audit = client().Lookup(LookupOf(held.begin));
    const CompleteReply again = Complete(held, "done");
    ASSERT_THAT(again, IsOk());
    if (audit.message.state() == v1::RECORD_STATE_COMPLETED) {
      EXPECT_TRUE(again.message.already_completed());
      EXPECT_EQ(FromProto(audit.message.completed_at()),
                FromProto(again.message.completed_at()));
      EXPECT_EQ(audit.message.response().body(), "done");
    } else {
      EXPECT_EQ(audit.message.state(), v1::RECORD_STATE_IN_PROGRESS);
    }
  }
}

TEST_F(BadInputTest, B44ConnectionsCutInMidCallAreHarmless) {
  const std::string message = BeginOf(Key(), "attempt-1").SerializeAsString();
  for (size_t bytes = 0; bytes <= message.size(); bytes += 4) {
    Http2Peer peer(Shared().server().address());
    peer.SendPreface();
    peer.SendHeaders(MethodPath("Begin"));
    peer.SendData(GrpcFrame(message).substr(0, bytes), EndStream::kNo);
  }
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-1")), IsStarted());
}

}  // namespace
}  // namespace dedupe::testing
