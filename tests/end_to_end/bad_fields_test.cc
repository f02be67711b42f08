// Requests that break a rule of the manual: each gets the code, the reason and
// the field that the manual names, and leaves no trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/still_serving.h"

namespace dedupe::testing {
namespace {

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
constexpr auto kPrecondition = grpc::StatusCode::FAILED_PRECONDITION;

google::protobuf::Duration Malformed(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

template <typename Request>
struct Case {
  const char* name;
  void (*spoil)(Request& request);
  const char* reason;
  const char* field;

  friend void PrintTo(const Case& self, std::ostream* out) {
    *out << self.name;
  }
};

using BeginCase = Case<v1::BeginRequest>;

class BadBeginTest : public StillServingTest,
                     public ::testing::WithParamInterface<BeginCase> {};

TEST_P(BadBeginTest, IsRefusedWithItsReasonAndLeavesNoTrace) {
  v1::BeginRequest request = BeginOf(Key(), "attempt-1");
  GetParam().spoil(request);
  const BeginReply reply = client().Begin(request);

  EXPECT_THAT(reply, IsRefused(kInvalid, GetParam().reason));
  EXPECT_EQ(DetailsOf(reply.status).field, GetParam().field);
  EXPECT_EQ(DetailsOf(reply.status).domain, "dedupe");
  ExpectHarmless(reply.status, Key());
  EXPECT_EQ(CountRows(), "0");
}

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Texts, BadBeginTest,
    ::testing::Values(
        BeginCase{"ClientIdUnset", [](auto& r) { r.clear_client_id(); },
                  "CLIENT_ID_EMPTY", "client_id"},
        BeginCase{"ClientId256",
                  [](auto& r) { r.set_client_id(std::string(256, 'c')); },
                  "CLIENT_ID_TOO_LONG", "client_id"},
        BeginCase{"ClientIdNul",
                  [](auto& r) { r.set_client_id(std::string("ac\0me", 5)); },
                  "CLIENT_ID_CHARACTERS", "client_id"},
        BeginCase{"KeyUnset", [](auto& r) { r.clear_key(); }, "KEY_EMPTY",
                  "key"},
        BeginCase{"KeyEmpty", [](auto& r) { r.set_key(""); }, "KEY_EMPTY",
                  "key"},
        BeginCase{"Key256", [](auto& r) { r.set_key(std::string(256, 'k')); },
                  "KEY_TOO_LONG", "key"},
        // 255 characters, and 256 bytes.
        BeginCase{
            "Key255Characters",
            [](auto& r) { r.set_key(std::string(254, 'k') + "\xc3\xa9"); },
            "KEY_TOO_LONG", "key"},
        BeginCase{"KeyNul",
                  [](auto& r) { r.set_key(std::string("pay\0X", 5)); },
                  "KEY_CHARACTERS", "key"},
        BeginCase{"KeyNewline", [](auto& r) { r.mutable_key()->append("\n"); },
                  "KEY_CHARACTERS", "key"},
        BeginCase{"KeyReturn", [](auto& r) { r.mutable_key()->append("\r"); },
                  "KEY_CHARACTERS", "key"},
        BeginCase{"KeyTab", [](auto& r) { r.mutable_key()->append("\tx"); },
                  "KEY_CHARACTERS", "key"},
        BeginCase{"KeyEscape",
                  [](auto& r) { r.mutable_key()->append("\x1b["); },
                  "KEY_CHARACTERS", "key"},
        BeginCase{"KeyDelete", [](auto& r) { r.mutable_key()->append("\x7f"); },
                  "KEY_CHARACTERS", "key"},
        // U+0085, next line.
        BeginCase{"KeyC1", [](auto& r) { r.mutable_key()->append("\xc2\x85"); },
                  "KEY_CHARACTERS", "key"},
        BeginCase{"Operation129",
                  [](auto& r) { r.set_operation(std::string(129, 'o')); },
                  "OPERATION_TOO_LONG", "operation"},
        BeginCase{"OperationNewline",
                  [](auto& r) { r.set_operation("POST /a\r\nHost: b"); },
                  "OPERATION_CHARACTERS", "operation"},
        BeginCase{"FingerprintUnset", [](auto& r) { r.clear_fingerprint(); },
                  "FINGERPRINT_EMPTY", "fingerprint"},
        BeginCase{"Fingerprint65",
                  [](auto& r) { r.set_fingerprint(std::string(65, 'f')); },
                  "FINGERPRINT_TOO_LONG", "fingerprint"},
        BeginCase{"AttemptUnset", [](auto& r) { r.clear_attempt_id(); },
                  "ATTEMPT_ID_EMPTY", "attempt_id"},
        BeginCase{"Attempt65",
                  [](auto& r) { r.set_attempt_id(std::string(65, 'a')); },
                  "ATTEMPT_ID_TOO_LONG", "attempt_id"},
        BeginCase{"AttemptAllNul",
                  [](auto& r) { r.set_attempt_id(std::string(16, '\0')); },
                  "ATTEMPT_ID_CHARACTERS", "attempt_id"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Durations, BadBeginTest,
    ::testing::Values(
        BeginCase{"LeaseForever",
                  [](auto& r) { *r.mutable_lease() = Malformed(kForever, 0); },
                  "LEASE_MALFORMED", "lease"},
        BeginCase{"LeaseMixedSigns",
                  [](auto& r) { *r.mutable_lease() = Malformed(1, -1); },
                  "LEASE_MALFORMED", "lease"},
        BeginCase{
            "LeaseTooManyNanos",
            [](auto& r) { *r.mutable_lease() = Malformed(1, 1'000'000'000); },
            "LEASE_MALFORMED", "lease"},
        BeginCase{
            "LeaseTenThousandYears",
            [](auto& r) { *r.mutable_lease() = Malformed(315'576'000'000, 0); },
            "LEASE_RANGE", "lease"},
        BeginCase{"TtlZero",
                  [](auto& r) { *r.mutable_ttl() = Malformed(0, 0); },
                  "TTL_RANGE", "ttl"},
        BeginCase{"TtlNegative",
                  [](auto& r) { *r.mutable_ttl() = Malformed(-1, 0); },
                  "TTL_RANGE", "ttl"},
        BeginCase{"TtlOneNanosecond",
                  [](auto& r) { *r.mutable_ttl() = Malformed(0, 1); },
                  "TTL_RANGE", "ttl"},
        BeginCase{"TtlAboveMost",
                  [](auto& r) { *r.mutable_ttl() = Malformed(2'678'400, 1); },
                  "TTL_RANGE", "ttl"},
        BeginCase{
            "TtlTwoTo31",
            [](auto& r) { *r.mutable_ttl() = Malformed(int64_t{1} << 31, 0); },
            "TTL_RANGE", "ttl"},
        // Five, if it wrapped at 32 bits.
        BeginCase{"TtlTwoTo32AndFive",
                  [](auto& r) {
                    *r.mutable_ttl() = Malformed((int64_t{1} << 32) + 5, 0);
                  },
                  "TTL_RANGE", "ttl"},
        BeginCase{"TtlForever",
                  [](auto& r) { *r.mutable_ttl() = Malformed(kForever, 0); },
                  "TTL_MALFORMED", "ttl"},
        BeginCase{"TtlMostNegative",
                  [](auto& r) {
                    *r.mutable_ttl() =
                        Malformed(std::numeric_limits<int64_t>::min(), 0);
                  },
                  "TTL_MALFORMED", "ttl"},
        BeginCase{"WaitZero",
                  [](auto& r) { *r.mutable_wait() = Malformed(0, 0); },
                  "WAIT_RANGE", "wait"},
        BeginCase{"WaitNegative",
                  [](auto& r) { *r.mutable_wait() = Malformed(-1, 0); },
                  "WAIT_RANGE", "wait"},
        BeginCase{"WaitAboveMost",
                  [](auto& r) { *r.mutable_wait() = Malformed(30, 1); },
                  "WAIT_RANGE", "wait"},
        BeginCase{"WaitForever",
                  [](auto& r) { *r.mutable_wait() = Malformed(kForever, 0); },
                  "WAIT_MALFORMED", "wait"},
        BeginCase{"OnLeaseExpiry99",
                  [](auto& r) {
                    r.set_on_lease_expiry(static_cast<v1::OnLeaseExpiry>(99));
                  },
                  "ON_LEASE_EXPIRY_UNKNOWN", "on_lease_expiry"},
        BeginCase{"OnLeaseExpiryNegative",
                  [](auto& r) {
                    r.set_on_lease_expiry(static_cast<v1::OnLeaseExpiry>(-1));
                  },
                  "ON_LEASE_EXPIRY_UNKNOWN", "on_lease_expiry"}),
    [](const auto& test) { return test.param.name; });

struct GoodCase {
  const char* name;
  void (*change)(v1::BeginRequest& request);

  friend void PrintTo(const GoodCase& self, std::ostream* out) {
    *out << self.name;
  }
};

class GoodBeginTest : public StillServingTest,
                      public ::testing::WithParamInterface<GoodCase> {};

// What stands next to a bound, on the side that is allowed.
TEST_P(GoodBeginTest, Starts) {
  v1::BeginRequest request = BeginOf(Key(), "attempt-1");
  GetParam().change(request);
  EXPECT_THAT(client().Begin(request), IsStarted());
}

INSTANTIATE_TEST_SUITE_P(
    All, GoodBeginTest,
    ::testing::Values(
        GoodCase{"Key255", [](auto& r) { r.set_key(std::string(255, 'k')); }},
        GoodCase{"ClientId255AndKey255",
                 [](auto& r) {
                   r.set_client_id(std::string(255, 'c'));
                   r.set_key(std::string(255, 'k'));
                 }},
        GoodCase{"OperationUnset", [](auto& r) { r.clear_operation(); }},
        GoodCase{"Operation128",
                 [](auto& r) { r.set_operation(std::string(128, 'o')); }},
        GoodCase{"Fingerprint1", [](auto& r) { r.set_fingerprint("f"); }},
        GoodCase{"Fingerprint16",
                 [](auto& r) { r.set_fingerprint(std::string(16, '\xff')); }},
        GoodCase{"Fingerprint64AllNul",
                 [](auto& r) { r.set_fingerprint(std::string(64, '\0')); }},
        GoodCase{"Attempt1", [](auto& r) { r.set_attempt_id("a"); }},
        GoodCase{"Attempt64",
                 [](auto& r) { r.set_attempt_id(std::string(64, 'a')); }},
        GoodCase{"TtlLeast",
                 [](auto& r) { *r.mutable_ttl() = Malformed(0, 100'000'000); }},
        GoodCase{"TtlMost",
                 [](auto& r) { *r.mutable_ttl() = Malformed(2'678'400, 0); }},
        GoodCase{"WaitMost",
                 [](auto& r) { *r.mutable_wait() = Malformed(30, 0); }},
        GoodCase{"WaitOneNanosecond",
                 [](auto& r) { *r.mutable_wait() = Malformed(0, 1); }},
        GoodCase{
            "OnLeaseExpiryHold",
            [](auto& r) { r.set_on_lease_expiry(v1::ON_LEASE_EXPIRY_HOLD); }}),
    [](const auto& test) { return test.param.name; });

using CompleteCase = Case<v1::CompleteRequest>;

class BadCompleteTest : public StillServingTest,
                        public ::testing::WithParamInterface<CompleteCase> {};

TEST_P(BadCompleteTest, IsRefusedWithItsReasonAndTheLeaseStays) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const BeginReply lease = client().Begin(begin);
  ASSERT_THAT(lease, IsStarted());
  v1::CompleteRequest request =
      CompleteOf(begin, lease.message.started().fence(), "done");
  GetParam().spoil(request);
  const CompleteReply reply = client().Complete(request);

  EXPECT_THAT(reply, IsRefused(kInvalid, GetParam().reason));
  EXPECT_EQ(DetailsOf(reply.status).field, GetParam().field);
  ExpectHarmless(reply.status, Key());
  const LookupReply lookup = client().Lookup(LookupOf(begin));
  EXPECT_EQ(lookup.message.state(), v1::RECORD_STATE_IN_PROGRESS);
  EXPECT_EQ(FromProto(lookup.message.lease_expires_at()),
            FromProto(lease.message.started().lease_expires_at()));
  EXPECT_THAT(client().Complete(CompleteOf(
                  begin, lease.message.started().fence(), "smaller")),
              IsOk());
}

void AddHeader(v1::CompleteRequest& request, const std::string& name,
               const std::string& value) {
  v1::Header& header = *request.mutable_response()->add_headers();
  header.set_name(name);
  header.set_value(value);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCompleteTest,
    ::testing::Values(
        CompleteCase{"FenceUnset", [](auto& r) { r.clear_fence(); },
                     "FENCE_RANGE", "fence"},
        CompleteCase{"FenceNegative", [](auto& r) { r.set_fence(-1); },
                     "FENCE_RANGE", "fence"},
        CompleteCase{"KeyUnset", [](auto& r) { r.clear_key(); }, "KEY_EMPTY",
                     "key"},
        CompleteCase{"AttemptUnset", [](auto& r) { r.clear_attempt_id(); },
                     "ATTEMPT_ID_EMPTY", "attempt_id"},
        CompleteCase{"ResponseUnset", [](auto& r) { r.clear_response(); },
                     "RESPONSE_MISSING", "response"},
        CompleteCase{"BodyAboveMost",
                     [](auto& r) {
                       r.mutable_response()->set_body(
                           std::string(256 * 1024 + 1, 'b'));
                     },
                     "RESPONSE_TOO_LARGE", "response.body"},
        CompleteCase{"BodyNotOmitted",
                     [](auto& r) { r.set_body_omitted(true); },
                     "BODY_NOT_OMITTED", "response.body"},
        CompleteCase{"Headers65",
                     [](auto& r) {
                       for (int i = 0; i < 65; ++i) AddHeader(r, "n", "v");
                     },
                     "HEADERS_TOO_MANY", "response.headers"},
        CompleteCase{"HeadersAboveMost",
                     [](auto& r) {
                       AddHeader(r, "n", std::string(8 * 1024, 'v'));
                       AddHeader(r, "n", std::string(8 * 1024 - 1, 'v'));
                     },
                     "HEADERS_TOO_LARGE", "response.headers"},
        CompleteCase{"HeaderNameEmpty", [](auto& r) { AddHeader(r, "", "v"); },
                     "HEADER_NAME_EMPTY", "response.headers[0].name"},
        CompleteCase{"HeaderNameNewline",
                     [](auto& r) {
                       AddHeader(r, "n", "v");
                       AddHeader(r, "a\nb", "v");
                     },
                     "HEADER_NAME_CHARACTERS", "response.headers[1].name"},
        CompleteCase{"HeaderValueNul",
                     [](auto& r) { AddHeader(r, "n", std::string("\0", 1)); },
                     "HEADER_VALUE_CHARACTERS", "response.headers[0].value"}),
    [](const auto& test) { return test.param.name; });

class BadHolderTest : public StillServingTest {};

TEST_F(BadHolderTest, FenceThatIsNotTheHoldersIsRefused) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const BeginReply lease = client().Begin(begin);
  const int64_t fence = lease.message.started().fence();
  for (const int64_t wrong : {int64_t{1}, fence - 1, fence + 1,
                              std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(client().Complete(CompleteOf(begin, wrong, "done")),
                IsRefused(kPrecondition, "LEASE_LOST"));
    EXPECT_THAT(client().Extend(ExtendOf(begin, wrong)),
                IsRefused(kPrecondition, "LEASE_LOST"));
    EXPECT_THAT(client().Release(ReleaseOf(begin, wrong)),
                IsRefused(kPrecondition, "LEASE_LOST"));
  }
  EXPECT_EQ(client().StateOf(begin), v1::RECORD_STATE_IN_PROGRESS);
}

TEST_F(BadHolderTest, OtherAttemptWithTheHoldersFenceIsRefused) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const BeginReply lease = client().Begin(begin);
  const v1::BeginRequest other = BeginOf(Key(), "attempt-2");
  const int64_t fence = lease.message.started().fence();

  EXPECT_THAT(client().Complete(CompleteOf(other, fence, "done")),
              IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Extend(ExtendOf(other, fence)),
              IsRefused(kPrecondition, "LEASE_LOST"));
  EXPECT_THAT(client().Release(ReleaseOf(other, fence)),
              IsRefused(kPrecondition, "LEASE_LOST"));
}

TEST_F(BadHolderTest, AbsentKeyIsUnknownToAllButLookup) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  constexpr auto kNotFound = grpc::StatusCode::NOT_FOUND;
  EXPECT_THAT(client().Complete(CompleteOf(begin, 7, "done")),
              IsRefused(kNotFound, "KEY_UNKNOWN"));
  EXPECT_THAT(client().Extend(ExtendOf(begin, 7)),
              IsRefused(kNotFound, "KEY_UNKNOWN"));
  EXPECT_THAT(client().Release(ReleaseOf(begin, 7)),
              IsRefused(kNotFound, "KEY_UNKNOWN"));
  EXPECT_EQ(client().StateOf(begin), v1::RECORD_STATE_ABSENT);
  EXPECT_EQ(CountRows(), "0");
}

TEST_F(BadHolderTest, SettledAttemptIsToldHowItSettled) {
  const v1::BeginRequest completed = BeginOf(Key("/completed"), "attempt-1");
  const int64_t fence = client().Begin(completed).message.started().fence();
  ASSERT_THAT(client().Complete(CompleteOf(completed, fence, "done")), IsOk());
  EXPECT_THAT(client().Release(ReleaseOf(completed, fence)),
              IsRefused(kPrecondition, "ALREADY_COMPLETED"));

  const v1::BeginRequest released = BeginOf(Key("/released"), "attempt-1");
  const int64_t freed = client().Begin(released).message.started().fence();
  ASSERT_THAT(client().Release(ReleaseOf(released, freed)), IsOk());
  EXPECT_THAT(client().Release(ReleaseOf(released, freed)), IsOk());
  EXPECT_THAT(client().Extend(ExtendOf(released, freed)),
              IsRefused(kPrecondition, "LEASE_LOST"));
}

TEST_F(BadHolderTest, CheckpointAboveMostIsRefused) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  v1::ExtendRequest extend =
      ExtendOf(begin, client().Begin(begin).message.started().fence());
  extend.set_checkpoint(std::string(4096, 'c'));
  EXPECT_THAT(client().Extend(extend), IsOk());
  extend.set_checkpoint(std::string(4097, 'c'));
  EXPECT_THAT(client().Extend(extend),
              IsRefused(kInvalid, "CHECKPOINT_TOO_LARGE"));
  extend.clear_checkpoint();
  *extend.mutable_lease() = Malformed(0, 0);
  EXPECT_THAT(client().Extend(extend), IsRefused(kInvalid, "LEASE_RANGE"));
}

}  // namespace
}  // namespace dedupe::testing
