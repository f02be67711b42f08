// Answers become messages: every outcome with all that it carries, and nothing
// that the caller has no business to know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "dedupe/v1/dedupe.pb.h"
#include "server/rpc/codec.h"

namespace dedupe {
namespace {

constexpr int64_t kDecided = 1'700'000'000;

// So many seconds after the decision, as a time and as its message says it.
absl::Time In(int64_t seconds) {
  return absl::FromUnixSeconds(kDecided + seconds);
}
int64_t SecondsOf(const google::protobuf::Timestamp& time) {
  EXPECT_EQ(time.nanos(), 0);
  return time.seconds() - kDecided;
}

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

v1::BeginResponse EncodeBegin(BeginOutcome outcome) {
  v1::BeginResponse message = Encode(BeginAnswer{std::move(outcome), In(0)});
  EXPECT_EQ(SecondsOf(message.decided_at()), 0);
  return message;
}

Response MakeResponse() {
  return {402,
          {{"x-n", "1"}, {"a", ""}, {"x-n", "2"}},
          std::string("\x00\xff", 2),
          false};
}

void ExpectResponse(const v1::Response& message) {
  EXPECT_EQ(message.code(), 402);
  ASSERT_EQ(message.headers_size(), 3);
  EXPECT_EQ(message.headers(0).name(), "x-n");
  EXPECT_EQ(message.headers(0).value(), "1");
  EXPECT_EQ(message.headers(1).name(), "a");
  EXPECT_EQ(message.headers(1).value(), "");
  EXPECT_EQ(message.headers(2).name(), "x-n");
  EXPECT_EQ(message.headers(2).value(), "2");
  EXPECT_EQ(message.body(), std::string("\x00\xff", 2));
}

// --- Begin -------------------------------------------------------------------

TEST(EncodeBeginTest, Started) {
  Started started;
  started.fence = INT64_MAX;
  started.attempt_number = 3;
  started.lease_expires_at = In(30);
  started.checkpoint = std::string("\x00\xff", 2);
  const v1::BeginResponse message = EncodeBegin(started);
  ASSERT_EQ(message.outcome_case(), v1::BeginResponse::kStarted);
  EXPECT_EQ(message.started().fence(), INT64_MAX);
  EXPECT_EQ(message.started().attempt_number(), 3);
  EXPECT_EQ(SecondsOf(message.started().lease_expires_at()), 30);
  EXPECT_EQ(message.started().checkpoint(), std::string("\x00\xff", 2));
  EXPECT_FALSE(message.started().resumed());
  EXPECT_FALSE(message.started().taken_over());
}

TEST(EncodeBeginTest, StartedTellsResumedFromTakenOver) {
  Started resumed;
  resumed.resumed = true;
  EXPECT_TRUE(EncodeBegin(resumed).started().resumed());
  EXPECT_FALSE(EncodeBegin(resumed).started().taken_over());
  Started taken_over;
  taken_over.taken_over = true;
  EXPECT_FALSE(EncodeBegin(taken_over).started().resumed());
  EXPECT_TRUE(EncodeBegin(taken_over).started().taken_over());
}

TEST(EncodeBeginTest, Replay) {
  const v1::BeginResponse message =
      EncodeBegin(dedupe::Replay{MakeResponse(), In(-5), In(86'400)});
  ASSERT_EQ(message.outcome_case(), v1::BeginResponse::kReplay);
  ExpectResponse(message.replay().response());
  EXPECT_EQ(SecondsOf(message.replay().completed_at()), -5);
  EXPECT_EQ(SecondsOf(message.replay().expires_at()), 86'400);
  EXPECT_FALSE(message.replay().body_omitted());
}

// Empty and omitted are two things.
TEST(EncodeBeginTest, ReplayTellsAnEmptyBodyFromAnOmittedOne) {
  Response response;
  const v1::BeginResponse empty =
      EncodeBegin(dedupe::Replay{response, In(0), In(1)});
  EXPECT_TRUE(empty.replay().has_response());
  EXPECT_FALSE(empty.replay().body_omitted());
  response.body_omitted = true;
  const v1::BeginResponse omitted =
      EncodeBegin(dedupe::Replay{response, In(0), In(1)});
  EXPECT_TRUE(omitted.replay().has_response());
  EXPECT_TRUE(omitted.replay().body_omitted());
}

TEST(EncodeBeginTest, InProgress) {
  const v1::BeginResponse message =
      EncodeBegin(dedupe::InProgress{In(-10), In(20)});
  ASSERT_EQ(message.outcome_case(), v1::BeginResponse::kInProgress);
  EXPECT_EQ(SecondsOf(message.in_progress().started_at()), -10);
  EXPECT_EQ(SecondsOf(message.in_progress().lease_expires_at()), 20);
}

// Greater than zero, not past a live lease, at most one second.
TEST(EncodeBeginTest, RetryAfterIsWithinItsBounds) {
  for (const absl::Duration left :
       {absl::Microseconds(1), absl::Milliseconds(1), absl::Milliseconds(999),
        absl::Seconds(1), absl::Seconds(1) + absl::Microseconds(1),
        absl::Seconds(30), absl::Minutes(15)}) {
    const v1::BeginResponse message =
        EncodeBegin(dedupe::InProgress{In(-1), In(0) + left});
    const absl::Duration retry_after =
        DurationOf(message.in_progress().retry_after());
    EXPECT_GT(retry_after, absl::ZeroDuration()) << left;
    EXPECT_LE(retry_after, left);
    EXPECT_LE(retry_after, absl::Seconds(1)) << left;
    EXPECT_EQ(retry_after, std::min(left, absl::Seconds(1)));
  }
}

// The lease has lapsed, and its holder is just now completing.
TEST(EncodeBeginTest, RetryAfterIsNeverZero) {
  for (const absl::Duration left :
       {absl::ZeroDuration(), -absl::Microseconds(1), -absl::Hours(1)}) {
    const v1::BeginResponse message =
        EncodeBegin(dedupe::InProgress{In(-1), In(0) + left});
    const absl::Duration retry_after =
        DurationOf(message.in_progress().retry_after());
    EXPECT_GT(retry_after, absl::ZeroDuration()) << left;
    EXPECT_LE(retry_after, absl::Seconds(1)) << left;
  }
}

TEST(EncodeBeginTest, MismatchTellsNothingButWhen) {
  const v1::BeginResponse message = EncodeBegin(dedupe::Mismatch{In(-60)});
  ASSERT_EQ(message.outcome_case(), v1::BeginResponse::kMismatch);
  EXPECT_EQ(SecondsOf(message.mismatch().first_seen_at()), -60);
  v1::Mismatch rest = message.mismatch();
  rest.clear_first_seen_at();
  EXPECT_EQ(rest.ByteSizeLong(), 0u);
}

TEST(EncodeBeginTest, InDoubt) {
  const v1::BeginResponse message = EncodeBegin(dedupe::InDoubt{In(-7), 2});
  ASSERT_EQ(message.outcome_case(), v1::BeginResponse::kInDoubt);
  EXPECT_EQ(SecondsOf(message.in_doubt().since()), -7);
  EXPECT_EQ(message.in_doubt().attempt_number(), 2);
}

// --- The others --------------------------------------------------------------

TEST(EncodeTest, Complete) {
  const v1::CompleteResponse message =
      Encode(CompleteAnswer{In(-1), In(60), true, In(0)});
  EXPECT_EQ(SecondsOf(message.completed_at()), -1);
  EXPECT_EQ(SecondsOf(message.expires_at()), 60);
  EXPECT_TRUE(message.already_completed());
  EXPECT_EQ(SecondsOf(message.decided_at()), 0);
  EXPECT_FALSE(Encode(CompleteAnswer{}).already_completed());
}

TEST(EncodeTest, Extend) {
  const v1::ExtendResponse message = Encode(ExtendAnswer{In(30), In(0)});
  EXPECT_EQ(SecondsOf(message.lease_expires_at()), 30);
  EXPECT_EQ(SecondsOf(message.decided_at()), 0);
}

TEST(EncodeTest, Release) {
  const v1::ReleaseResponse message = Encode(ReleaseAnswer{In(30), In(0)});
  EXPECT_EQ(SecondsOf(message.expires_at()), 30);
  EXPECT_EQ(SecondsOf(message.decided_at()), 0);
}

TEST(EncodeLookupTest, EveryStateHasItsName) {
  const std::pair<RecordState, v1::RecordState> states[] = {
      {RecordState::kAbsent, v1::RECORD_STATE_ABSENT},
      {RecordState::kInProgress, v1::RECORD_STATE_IN_PROGRESS},
      {RecordState::kReleased, v1::RECORD_STATE_RELEASED},
      {RecordState::kInDoubt, v1::RECORD_STATE_IN_DOUBT},
      {RecordState::kCompleted, v1::RECORD_STATE_COMPLETED}};
  for (const auto& [state, name] : states) {
    LookupAnswer answer;
    answer.state = state;
    EXPECT_EQ(Encode(std::move(answer)).state(), name);
  }
}

TEST(EncodeLookupTest, AbsentHasOnlyTheTimeOfTheDecision) {
  LookupAnswer answer;
  answer.decided_at = In(0);
  v1::LookupResponse message = Encode(std::move(answer));
  EXPECT_EQ(SecondsOf(message.decided_at()), 0);
  message.clear_decided_at();
  message.clear_state();
  EXPECT_EQ(message.ByteSizeLong(), 0u);
}

TEST(EncodeLookupTest, EveryFieldIsKept) {
  LookupAnswer answer;
  answer.state = RecordState::kCompleted;
  answer.operation = "POST /v1/charges";
  answer.attempt_number = 4;
  answer.created_at = In(-40);
  answer.started_at = In(-30);
  answer.lease_expires_at = In(-20);
  answer.completed_at = In(-10);
  answer.expires_at = In(10);
  answer.response = MakeResponse();
  answer.decided_at = In(0);
  const v1::LookupResponse message = Encode(std::move(answer));
  EXPECT_EQ(message.operation(), "POST /v1/charges");
  EXPECT_EQ(message.attempt_number(), 4);
  EXPECT_EQ(SecondsOf(message.created_at()), -40);
  EXPECT_EQ(SecondsOf(message.started_at()), -30);
  EXPECT_EQ(SecondsOf(message.lease_expires_at()), -20);
  EXPECT_EQ(SecondsOf(message.completed_at()), -10);
  EXPECT_EQ(SecondsOf(message.expires_at()), 10);
  ExpectResponse(message.response());
  EXPECT_FALSE(message.body_omitted());
}

// Under HOLD a record that is not completed does not expire.
TEST(EncodeLookupTest, WhatIsUnsetStaysUnset) {
  LookupAnswer answer;
  answer.state = RecordState::kInDoubt;
  answer.created_at = In(-40);
  const v1::LookupResponse message = Encode(std::move(answer));
  EXPECT_TRUE(message.has_created_at());
  EXPECT_FALSE(message.has_started_at());
  EXPECT_FALSE(message.has_lease_expires_at());
  EXPECT_FALSE(message.has_completed_at());
  EXPECT_FALSE(message.has_expires_at());
  EXPECT_FALSE(message.has_response());
}

TEST(EncodeLookupTest, ThatTheBodyIsOmittedIsKept) {
  LookupAnswer answer;
  answer.state = RecordState::kCompleted;
  answer.response.emplace();
  answer.response->body_omitted = true;
  const v1::LookupResponse message = Encode(std::move(answer));
  EXPECT_TRUE(message.has_response());
  EXPECT_TRUE(message.body_omitted());
}

}  // namespace
}  // namespace dedupe
