// Complete, Extend, Release and Lookup in states that do not suit them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "tests/end_to_end/bad_input/bad_input_test.h"

namespace dedupe::testing {
namespace {

TEST_F(BadInputTest, B21FenceThatIsNotTheHoldersIsRefused) {
  const Holding held = Hold();
  const int64_t fence = held.started.fence();
  for (const int64_t wrong : {int64_t{1}, fence - 1, fence + 1,
                              std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(client().Complete(CompleteOf(held.begin, wrong, "done")),
                IsRefused(kPrecondition, "LEASE_LOST"));
    EXPECT_THAT(client().Extend(ExtendOf(held.begin, wrong)),
                IsRefused(kPrecondition, "LEASE_LOST"));
    EXPECT_THAT(client().Release(ReleaseOf(held.begin, wrong)),
                IsRefused(kPrecondition, "LEASE_LOST"));
  }
  EXPECT_EQ(client().StateOf(held.begin), v1::RECORD_STATE_IN_PROGRESS);
}

TEST_F(BadInputTest, B22LapsedLeaseThatNobodyTookMayComplete) {
  EXPECT_THAT(Complete(HoldAndLapse(), "late"), IsOk());
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-2")), IsReplayOf("late"));
}

TEST_F(BadInputTest, B23CompletionAfterATakeoverIsRefused) {
  const Holding late = HoldAndLapse();
  const Holding heir = Hold(BeginOf(Key(), "attempt-2"));
  EXPECT_TRUE(heir.started.taken_over());
  EXPECT_THAT(Complete(late, "late"), IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(Complete(heir, "done"), IsOk());
}

TEST_F(BadInputTest, B24SameCompletionAgainIsAlreadyCompleted) {
  const Holding held = Hold();
  const CompleteReply first = Complete(held, "done");
  ASSERT_THAT(first, IsOk());
  EXPECT_FALSE(first.message.already_completed());
  const CompleteReply again = Complete(held, "done");
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again.message.already_completed());
  EXPECT_EQ(FromProto(again.message.completed_at()),
            FromProto(first.message.completed_at()));
}

TEST_F(BadInputTest, B25FirstResponseStaysWhateverFollows) {
  const Holding held = Hold();
  const int64_t fence = held.started.fence();
  ASSERT_THAT(Complete(held, "first"), IsOk());
  v1::CompleteRequest other_header = CompleteOf(held.begin, fence, "first");
  other_header.mutable_response()->add_headers()->set_name("n");
  v1::CompleteRequest other_code = CompleteOf(held.begin, fence, "first");
  other_code.mutable_response()->set_code(200);
  for (const v1::CompleteRequest& other :
       {CompleteOf(held.begin, fence, "second"),
        CompleteOf(held.begin, fence, ""),
        CompleteOf(held.begin, fence, "first\n"), other_header, other_code}) {
    EXPECT_THAT(client().Complete(other),
                IsRefused(kPrecondition, "RESPONSE_CONFLICT"));
  }
  const CompleteReply same = Complete(held, "first");
  ASSERT_THAT(same, IsOk());
  EXPECT_TRUE(same.message.already_completed());
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-2")), IsReplayOf("first"));
}

TEST_F(BadInputTest, B26BodyOfNothingOrOfNulsIsReplayedExactly) {
  for (const std::string& body :
       {std::string(), std::string(1, '\0'), std::string("a\0b\0", 4)}) {
    const std::string key = Key(absl::StrCat("/", body.size()));
    ASSERT_THAT(Complete(Hold(BeginOf(key, "attempt-1")), body), IsOk());
    EXPECT_THAT(client().Begin(BeginOf(key, "attempt-2")), IsReplayOf(body));
  }
}

TEST_F(BadInputTest, B32ExtendOfACompletedKeyIsRefused) {
  const Holding held = Hold();
  ASSERT_THAT(Complete(held, "done"), IsOk());
  EXPECT_THAT(client().Extend(ExtendOf(held.begin, held.started.fence())),
              IsRefused(kPrecondition, "ALREADY_COMPLETED"));
  EXPECT_EQ(client().StateOf(held.begin), v1::RECORD_STATE_COMPLETED);
}

TEST_F(BadInputTest, B33ExtendOfAReleasedKeyIsRefused) {
  const Holding held = Hold();
  ASSERT_THAT(client().Release(ReleaseOf(held.begin, held.started.fence())),
              IsOk());
  EXPECT_THAT(client().Extend(ExtendOf(held.begin, held.started.fence())),
              IsRefused(kPrecondition, "LEASE_LOST"));
}

TEST_F(BadInputTest, B34ExtendThatWouldShortenTheLeaseLeavesIt) {
  const Holding held = Hold();
  v1::ExtendRequest extend = ExtendOf(held.begin, held.started.fence());
  *extend.mutable_lease() = ToProto(absl::Milliseconds(100));
  const ExtendReply reply = client().Extend(extend);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(FromProto(reply.message.lease_expires_at()),
            FromProto(held.started.lease_expires_at()));
}

TEST_F(BadInputTest, B35ReleaseIsIdempotentAndNotForCompletedKeys) {
  const Holding completed = Hold(BeginOf(Key("/completed"), "attempt-1"));
  ASSERT_THAT(Complete(completed, "done"), IsOk());
  EXPECT_THAT(
      client().Release(ReleaseOf(completed.begin, completed.started.fence())),
      IsRefused(kPrecondition, "ALREADY_COMPLETED"));

  const Holding released = Hold(BeginOf(Key("/released"), "attempt-1"));
  const v1::ReleaseRequest release =
      ReleaseOf(released.begin, released.started.fence());
  ASSERT_THAT(client().Release(release), IsOk());
  EXPECT_THAT(client().Release(release), IsOk());
  EXPECT_EQ(client().StateOf(released.begin), v1::RECORD_STATE_RELEASED);
}

TEST_F(BadInputTest, B36AbsentKeyAndAnotherClientsKeyLookTheSame) {
  const Holding held = Hold();
  ASSERT_THAT(Complete(held, "secret"), IsOk());
  v1::LookupRequest theirs = LookupOf(held.begin);
  theirs.set_client_id("globex");
  v1::LookupRequest absent = LookupOf(held.begin);
  absent.set_key(Key("/absent"));

  LookupReply seen = client().Lookup(theirs);
  LookupReply unseen = client().Lookup(absent);
  ASSERT_THAT(seen, IsOk());
  EXPECT_EQ(seen.message.state(), v1::RECORD_STATE_ABSENT);
  EXPECT_TRUE(seen.message.has_decided_at());
  EXPECT_TRUE(unseen.message.has_decided_at());
  seen.message.clear_decided_at();
  unseen.message.clear_decided_at();
  EXPECT_EQ(seen.message.SerializeAsString(),
            unseen.message.SerializeAsString());
}

}  // namespace
}  // namespace dedupe::testing
