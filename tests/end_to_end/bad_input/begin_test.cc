// Begins that look wrong and are not, or the other way about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/bad_input/bad_input_test.h"

namespace dedupe::testing {
namespace {

v1::BeginRequest OtherRequest(v1::BeginRequest begin) {
  begin.set_fingerprint("another request");
  return begin;
}

// Composed and decomposed, with a space behind, in capitals.
TEST_F(BadInputTest, B05LookAlikesAreKeysOfTheirOwn) {
  const std::vector<std::string> suffixes = {
      "caf\xc3\xa9", "cafe\xcc\x81", "cafe", "cafe ", "Cafe", "CAFE"};
  for (const std::string& suffix : suffixes) {
    const Holding held = Hold(BeginOf(Key(suffix), "attempt-1"));
    EXPECT_FALSE(held.started.resumed()) << suffix;
    EXPECT_THAT(Complete(held, suffix), IsOk());
  }
  EXPECT_EQ(CountRows(), absl::StrCat(suffixes.size()));
  for (const std::string& suffix : suffixes) {
    EXPECT_THAT(client().Begin(BeginOf(Key(suffix), "attempt-2")),
                IsReplayOf(suffix));
  }
}

TEST_F(BadInputTest, B08SameAttemptOnTwoKeysIsTwoAttempts) {
  EXPECT_THAT(client().Begin(BeginOf(Key("/1"), "attempt-1")), IsStarted());
  EXPECT_THAT(client().Begin(BeginOf(Key("/2"), "attempt-1")), IsStarted());
  EXPECT_EQ(CountRows(), "2");
}

TEST_F(BadInputTest, B09SameAttemptTwiceAtOnceGetsOneFence) {
  for (int i = 0; i < 20; ++i) {
    const v1::BeginRequest begin =
        BeginOf(Key(absl::StrCat("/", i)), "attempt-1");
    const PendingBegin one(client(), begin);
    const PendingBegin two(client(), begin);
    ASSERT_THAT(one.reply(), IsStarted());
    ASSERT_THAT(two.reply(), IsStarted());
    const v1::Started& first = one.reply().message.started();
    const v1::Started& second = two.reply().message.started();
    EXPECT_EQ(first.fence(), second.fence());
    EXPECT_NE(first.resumed(), second.resumed());
    EXPECT_EQ(first.attempt_number(), 1);
    EXPECT_EQ(second.attempt_number(), 1);
  }
}

// A request bound to one key stays bound to it, whatever has become of it.
TEST_F(BadInputTest, B12OtherRequestIsAMismatchInEveryState) {
  const v1::BeginRequest other = OtherRequest(BeginOf(Key(), "attempt-9"));
  v1::BeginRequest other_operation = BeginOf(Key(), "attempt-9");
  other_operation.set_operation("POST /v1/refunds");
  const auto expect_mismatch = [&](const char* state) {
    for (const v1::BeginRequest& request : {other, other_operation}) {
      const BeginReply reply = client().Begin(request);
      ASSERT_THAT(reply, IsMismatch()) << state;
      EXPECT_TRUE(reply.message.mismatch().has_first_seen_at());
    }
  };
  v1::BeginRequest first = BeginOf(Key(), "attempt-1");
  *first.mutable_lease() = ToProto(absl::Milliseconds(300));
  const BeginReply lease = client().Begin(first);
  ASSERT_THAT(lease, IsStarted());
  expect_mismatch("in progress");
  WaitUntilPast(lease.message.started().lease_expires_at());
  expect_mismatch("lease lapsed");
  ASSERT_THAT(
      client().Release(ReleaseOf(first, lease.message.started().fence())),
      IsOk());
  expect_mismatch("released");
  const v1::BeginRequest second = BeginOf(Key(), "attempt-2");
  const BeginReply next = client().Begin(second);
  ASSERT_THAT(client().Complete(
                  CompleteOf(second, next.message.started().fence(), "done")),
              IsOk());
  expect_mismatch("completed");
  EXPECT_THAT(client().Begin(second), IsReplayOf("done"));
}

TEST_F(BadInputTest, B13OtherRequestPastTheRetentionStartsAnew) {
  v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  *begin.mutable_ttl() = ToProto(absl::Milliseconds(100));
  const Holding held = Hold(begin);
  const CompleteReply completed = Complete(held, "done");
  ASSERT_THAT(completed, IsOk());
  WaitUntilPast(completed.message.expires_at());

  const Holding anew = Hold(OtherRequest(BeginOf(Key(), "attempt-2")));
  EXPECT_EQ(anew.started.attempt_number(), 1);
  EXPECT_FALSE(anew.started.taken_over());
  EXPECT_GT(anew.started.fence(), held.started.fence());
}

TEST_F(BadInputTest, B18KeyOfALiveLeaseIsInProgressWithATimeToAskAgain) {
  const Holding held = Hold();
  const BeginReply reply = client().Begin(BeginOf(Key(), "attempt-2"));
  ASSERT_THAT(reply, IsInProgress());
  const absl::Duration retry_after =
      FromProto(reply.message.in_progress().retry_after());
  EXPECT_GT(retry_after, absl::ZeroDuration());
  EXPECT_LE(retry_after, absl::Seconds(1));
  EXPECT_THAT(Complete(held, "done"), IsOk());
}

}  // namespace
}  // namespace dedupe::testing
