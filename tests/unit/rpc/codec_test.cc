// Messages become commands, and answers become messages, field by field.
#include "server/rpc/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "dedupe/v1/dedupe.pb.h"
#include "server/service/reason.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::dedupe::testing::IsOk;
using ::dedupe::testing::IsRefusal;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int32_t kInt32Min = std::numeric_limits<int32_t>::min();
// 10,000 years, which is all that protobuf allows.
constexpr int64_t kSecondsMax = 315'576'000'000;

google::protobuf::Duration MakeDuration(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

// --- Durations ---------------------------------------------------------------

// A field that is a duration, whatever the message.
struct DurationField {
  const char* name;
  const char* field;
  Reason malformed;
  // Decodes a message in which it is set to that, or not at all.
  std::function<absl::StatusOr<std::optional<absl::Duration>>(
      const google::protobuf::Duration*)>
      decode;
};

// `field` and `value` say where it stands in the message, and in what becomes
// of it.
template <typename Request, typename Field, typename Value>
DurationField MakeField(const char* name, const char* field_name,
                        Reason malformed, Field field, Value value) {
  return {name, field_name, malformed,
          [field, value](const google::protobuf::Duration* duration)
              -> absl::StatusOr<std::optional<absl::Duration>> {
            Request request;
            if (duration != nullptr) *field(request) = *duration;
            auto decoded = Decode(std::move(request));
            if (!decoded.ok()) return decoded.status();
            return value(*decoded);
          }};
}

std::vector<DurationField> DurationFields() {
  return {MakeField<v1::BeginRequest>(
              "BeginLease", "lease", Reason::kLeaseMalformed,
              [](v1::BeginRequest& r) { return r.mutable_lease(); },
              [](const DecodedBegin& d) { return d.command.lease; }),
          MakeField<v1::BeginRequest>(
              "BeginTtl", "ttl", Reason::kTtlMalformed,
              [](v1::BeginRequest& r) { return r.mutable_ttl(); },
              [](const DecodedBegin& d) { return d.command.ttl; }),
          MakeField<v1::BeginRequest>(
              "BeginWait", "wait", Reason::kWaitMalformed,
              [](v1::BeginRequest& r) { return r.mutable_wait(); },
              [](const DecodedBegin& d) { return d.wait; }),
          MakeField<v1::ExtendRequest>(
              "ExtendLease", "lease", Reason::kLeaseMalformed,
              [](v1::ExtendRequest& r) { return r.mutable_lease(); },
              [](const ExtendCommand& c) { return c.lease; })};
}

class DurationFieldTest : public ::testing::TestWithParam<DurationField> {
 protected:
  static auto DecodeAs(int64_t seconds, int32_t nanos) {
    const auto duration = MakeDuration(seconds, nanos);
    return GetParam().decode(&duration);
  }
};

TEST_P(DurationFieldTest, UnsetStaysUnset) {
  const auto decoded = GetParam().decode(nullptr);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, std::nullopt);
}

// Zero is refused later, by the bounds; taken for unset, it would be granted.
TEST_P(DurationFieldTest, ZeroIsNotUnset) {
  const auto decoded = DecodeAs(0, 0);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, absl::ZeroDuration());
}

TEST_P(DurationFieldTest, NanosecondsAreKept) {
  EXPECT_EQ(**DecodeAs(2, 1), absl::Seconds(2) + absl::Nanoseconds(1));
  EXPECT_EQ(**DecodeAs(0, 999'999'999), absl::Nanoseconds(999'999'999));
  EXPECT_EQ(**DecodeAs(-1, -500'000'000), absl::Milliseconds(-1500));
  EXPECT_EQ(**DecodeAs(0, -1), absl::Nanoseconds(-1));
}

TEST_P(DurationFieldTest, TheLargestAreKept) {
  EXPECT_EQ(**DecodeAs(kSecondsMax, 999'999'999),
            absl::Seconds(kSecondsMax) + absl::Nanoseconds(999'999'999));
  EXPECT_EQ(**DecodeAs(-kSecondsMax, -999'999'999),
            absl::Seconds(-kSecondsMax) - absl::Nanoseconds(999'999'999));
}

TEST_P(DurationFieldTest, MalformedIsRefused) {
  const auto refused =
      IsRefusal(GetParam().malformed, std::string(GetParam().field));
  const std::pair<int64_t, int32_t> malformed[] = {
      // Seconds and nanos that differ in sign.
      {1, -1},
      {-1, 1},
      {kSecondsMax, -1},
      // Nanos that are a second or more.
      {0, 1'000'000'000},
      {0, -1'000'000'000},
      {0, kInt32Max},
      {0, kInt32Min},
      {1, 1'000'000'000},
      // Seconds beyond what there is.
      {kSecondsMax + 1, 0},
      {-kSecondsMax - 1, 0},
      {kInt64Max, 0},
      {kInt64Min, 0},
      {kInt64Max, 999'999'999},
      {kInt64Min, -999'999'999},
      {kInt64Max, kInt32Min},
      {kInt64Min, kInt32Max}};
  for (const auto& [seconds, nanos] : malformed) {
    EXPECT_THAT(DecodeAs(seconds, nanos), refused)
        << seconds << " s and " << nanos << " ns";
  }
}

INSTANTIATE_TEST_SUITE_P(All, DurationFieldTest,
                         ::testing::ValuesIn(DurationFields()),
                         [](const auto& tested) {
                           return std::string(tested.param.name);
                         });

// --- Requests ----------------------------------------------------------------

v1::BeginRequest MakeBegin() {
  v1::BeginRequest request;
  request.set_client_id("acme");
  request.set_key("key-1");
  request.set_operation("POST /v1/charges");
  request.set_fingerprint(std::string("\x00\xff", 2));
  request.set_attempt_id("attempt-1");
  return request;
}

template <typename Request>
Request MakeHolding() {
  Request request;
  request.set_client_id("acme");
  request.set_key("key-1");
  request.set_attempt_id("attempt-1");
  request.set_fence(7);
  return request;
}

template <typename Command>
void ExpectHolding(const Command& command) {
  EXPECT_EQ(command.id, (RecordId{"acme", "key-1"}));
  EXPECT_EQ(command.holder.attempt_id, "attempt-1");
  EXPECT_EQ(command.holder.fence, 7);
}

TEST(DecodeTest, BeginKeepsEveryField) {
  v1::BeginRequest request = MakeBegin();
  request.set_on_lease_expiry(v1::ON_LEASE_EXPIRY_HOLD);
  const auto begin = Decode(std::move(request));
  ASSERT_THAT(begin, IsOk());
  EXPECT_EQ(begin->command.id, (RecordId{"acme", "key-1"}));
  EXPECT_EQ(begin->command.operation, "POST /v1/charges");
  EXPECT_EQ(begin->command.fingerprint, std::string("\x00\xff", 2));
  EXPECT_EQ(begin->command.attempt_id, "attempt-1");
  EXPECT_EQ(begin->command.on_lease_expiry, OnLeaseExpiry::kHold);
  EXPECT_EQ(begin->wait, std::nullopt);
}

TEST(DecodeTest, TextsAreNeitherTrimmedNorDecoded) {
  v1::BeginRequest request = MakeBegin();
  request.set_client_id(" acme ");
  request.set_key("a%2Fb+c e\xcc\x81");
  const auto begin = Decode(std::move(request));
  ASSERT_THAT(begin, IsOk());
  EXPECT_EQ(begin->command.id, (RecordId{" acme ", "a%2Fb+c e\xcc\x81"}));
}

TEST(DecodeTest, TakeoverIsTheDefault) {
  for (const auto value :
       {v1::ON_LEASE_EXPIRY_UNSPECIFIED, v1::ON_LEASE_EXPIRY_TAKEOVER}) {
    v1::BeginRequest request = MakeBegin();
    request.set_on_lease_expiry(value);
    EXPECT_EQ(Decode(std::move(request))->command.on_lease_expiry,
              OnLeaseExpiry::kTakeover);
  }
}

// Proto3 lets any number through, such as one of a newer client.
TEST(DecodeTest, UnknownPoliciesAreRefused) {
  for (const int value : {3, 99, -1, kInt32Max, kInt32Min}) {
    v1::BeginRequest request = MakeBegin();
    request.set_on_lease_expiry(static_cast<v1::OnLeaseExpiry>(value));
    EXPECT_THAT(Decode(std::move(request)),
                IsRefusal(Reason::kOnLeaseExpiryUnknown, "on_lease_expiry"))
        << value;
  }
}

TEST(DecodeTest, CompleteKeepsEveryField) {
  auto request = MakeHolding<v1::CompleteRequest>();
  request.mutable_response()->set_code(-402);
  for (const char* value : {"1", "2"}) {
    v1::Header& header = *request.mutable_response()->add_headers();
    header.set_name("x-n");
    header.set_value(value);
  }
  request.mutable_response()->set_body(std::string("\x00\xff", 2));
  const auto command = Decode(std::move(request));
  ASSERT_THAT(command, IsOk());
  ExpectHolding(*command);
  EXPECT_EQ(command->response, (Response{-402,
                                         {{"x-n", "1"}, {"x-n", "2"}},
                                         std::string("\x00\xff", 2),
                                         false}));
}

TEST(DecodeTest, CompleteWithoutAResponseIsRefused) {
  EXPECT_THAT(Decode(MakeHolding<v1::CompleteRequest>()),
              IsRefusal(Reason::kResponseMissing, "response"));
}

TEST(DecodeTest, CompleteMayHaveAnEmptyResponse) {
  auto request = MakeHolding<v1::CompleteRequest>();
  request.mutable_response();
  const auto command = Decode(std::move(request));
  ASSERT_THAT(command, IsOk());
  EXPECT_EQ(command->response, Response());
}

TEST(DecodeTest, CompleteKeepsThatTheBodyIsOmitted) {
  auto request = MakeHolding<v1::CompleteRequest>();
  request.mutable_response()->set_code(200);
  request.set_body_omitted(true);
  EXPECT_TRUE(Decode(std::move(request))->response.body_omitted);
}

TEST(DecodeTest, ExtendKeepsEveryField) {
  auto request = MakeHolding<v1::ExtendRequest>();
  *request.mutable_lease() = MakeDuration(3, 0);
  request.set_checkpoint(std::string("\x00\xff", 2));
  const auto command = Decode(std::move(request));
  ASSERT_THAT(command, IsOk());
  ExpectHolding(*command);
  EXPECT_EQ(command->lease, absl::Seconds(3));
  EXPECT_EQ(command->checkpoint, std::string("\x00\xff", 2));
}

TEST(DecodeTest, ReleaseKeepsEveryField) {
  for (const bool forget : {false, true}) {
    auto request = MakeHolding<v1::ReleaseRequest>();
    request.set_forget_fingerprint(forget);
    const auto command = Decode(std::move(request));
    ASSERT_THAT(command, IsOk());
    ExpectHolding(*command);
    EXPECT_EQ(command->forget_fingerprint, forget);
  }
}

TEST(DecodeTest, LookupKeepsEveryField) {
  v1::LookupRequest request;
  request.set_client_id("acme");
  request.set_key("key-1");
  EXPECT_EQ(Decode(std::move(request))->id, (RecordId{"acme", "key-1"}));
}

// --- Unknown fields ----------------------------------------------------------

// Field 1000, a text of three bytes, as a newer client might send it.
constexpr char kUnknownField[] = "\xc2\x3e\x03new";

TEST(UnknownFieldsTest, OfARequestAreNoMatter) {
  v1::BeginRequest request;
  ASSERT_TRUE(
      request.ParseFromString(MakeBegin().SerializeAsString() + kUnknownField));
  ASSERT_EQ(request.GetReflection()->GetUnknownFields(request).field_count(),
            1);
  const auto begin = Decode(std::move(request));
  ASSERT_THAT(begin, IsOk());
  EXPECT_EQ(begin->command.id, (RecordId{"acme", "key-1"}));
}

// What is stored is what dedupe.proto knows, and so is what is replayed.
TEST(UnknownFieldsTest, OfAResponseAreNotStored) {
  auto request = MakeHolding<v1::CompleteRequest>();
  ASSERT_TRUE(request.mutable_response()->ParseFromString(std::string("\x1a\x04"
                                                                      "body") +
                                                          kUnknownField));
  const auto command = Decode(std::move(request));
  ASSERT_THAT(command, IsOk());
  EXPECT_EQ(command->response, (Response{0, {}, "body", false}));

  BeginAnswer answer;
  answer.outcome =
      Replay{command->response, absl::UnixEpoch(), absl::UnixEpoch()};
  const v1::Response replayed = Encode(std::move(answer)).replay().response();
  EXPECT_EQ(replayed.GetReflection()->GetUnknownFields(replayed).field_count(),
            0);
}

// --- Times -------------------------------------------------------------------

struct TimeCase {
  absl::Time time;
  int64_t seconds;
  int32_t nanos;
};

// The nanos of a Timestamp count forward, also before 1970.
TEST(ToProtoTest, TimesCountForward) {
  const TimeCase cases[] = {
      {absl::UnixEpoch(), 0, 0},
      {absl::FromUnixMicros(1), 0, 1000},
      {absl::FromUnixMicros(1'700'000'000'123'456), 1'700'000'000, 123'456'000},
      {absl::FromUnixMicros(-1), -1, 999'999'000},
      {absl::FromUnixMillis(-1500), -2, 500'000'000},
      {absl::FromUnixSeconds(-2), -2, 0},
      {absl::FromUnixNanos(-1), -1, 999'999'999},
      // The ends of what protobuf allows: the years 1 and 9999.
      {absl::FromUnixSeconds(-62'135'596'800), -62'135'596'800, 0},
      {absl::FromUnixSeconds(253'402'300'799) + absl::Nanoseconds(999'999'999),
       253'402'300'799, 999'999'999}};
  for (const TimeCase& c : cases) {
    const auto message = ToProto(c.time);
    EXPECT_EQ(message.seconds(), c.seconds) << c.time;
    EXPECT_EQ(message.nanos(), c.nanos) << c.time;
  }
}

TEST(ToProtoTest, DurationsHaveOneSign) {
  const std::pair<absl::Duration, std::pair<int64_t, int32_t>> cases[] = {
      {absl::ZeroDuration(), {0, 0}},
      {absl::Nanoseconds(1), {0, 1}},
      {absl::Milliseconds(1500), {1, 500'000'000}},
      {absl::Milliseconds(-1500), {-1, -500'000'000}},
      {absl::Nanoseconds(-1), {0, -1}}};
  for (const auto& [duration, parts] : cases) {
    const auto message = ToProto(duration);
    EXPECT_EQ(message.seconds(), parts.first) << duration;
    EXPECT_EQ(message.nanos(), parts.second) << duration;
  }
}

}  // namespace
}  // namespace dedupe
