// Responses come back byte for byte, up to the bound, at every client; beyond
// it they are refused and nothing is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/still_serving.h"

namespace dedupe::testing {
namespace {

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
constexpr size_t kBodyMax = 256 * 1024;

class PayloadTest : public StillServingTest {
 protected:
  v1::BeginRequest Begun(int64_t* fence) {
    v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
    const BeginReply lease = client().Begin(begin);
    EXPECT_THAT(lease, IsStarted());
    *fence = lease.message.started().fence();
    return begin;
  }

  // What a second attempt is handed.
  v1::Response ReplayedResponse() {
    const BeginReply reply = client().Begin(BeginOf(Key(), "attempt-2"));
    EXPECT_TRUE(reply.message.has_replay()) << Describe(reply.status);
    return reply.message.replay().response();
  }

  static std::string Column(const std::string& expression) {
    return SqlValue(
        Shared().url(),
        absl::StrCat("SELECT ", expression, " FROM dedupe.record WHERE key = '",
                     Key(), "'"));
  }
};

// A JSON column would reorder members, drop spaces and duplicates.
TEST_F(PayloadTest, BodyIsKeptByteForByte) {
  const std::string body = "{\"b\":1, \"a\":1.0,\"a\":2}\r\n";
  int64_t fence = 0;
  const v1::BeginRequest begin = Begun(&fence);
  ASSERT_THAT(client().Complete(CompleteOf(begin, fence, body)), IsOk());

  EXPECT_EQ(ReplayedResponse().body(), body);
  EXPECT_EQ(Column("pg_typeof(response_body)"), "bytea");
}

TEST_F(PayloadTest, EmptyBodyIsAResponseAndNotNone) {
  int64_t fence = 0;
  const v1::BeginRequest begin = Begun(&fence);
  ASSERT_THAT(client().Complete(CompleteOf(begin, fence, "")), IsOk());

  const LookupReply lookup = client().Lookup(LookupOf(begin));
  EXPECT_EQ(lookup.message.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_TRUE(lookup.message.has_response());
  EXPECT_FALSE(lookup.message.body_omitted());
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-2")), IsReplayOf(""));
  EXPECT_EQ(Column("response_body IS NULL"), "f");
  EXPECT_EQ(Column("length(response_body)"), "0");
}

TEST_F(PayloadTest, ResponseMayBeEmptyThroughout) {
  int64_t fence = 0;
  const v1::BeginRequest begin = Begun(&fence);
  v1::CompleteRequest complete = CompleteOf(begin, fence, "");
  complete.mutable_response()->Clear();
  ASSERT_THAT(client().Complete(complete), IsOk());
  EXPECT_EQ(ReplayedResponse().SerializeAsString(), "");
}

TEST_F(PayloadTest, EveryByteComesBack) {
  std::string body;
  for (int i = 0; i < 256; ++i) body += static_cast<char>(i);
  int64_t fence = 0;
  const v1::BeginRequest begin = Begun(&fence);
  ASSERT_THAT(client().Complete(CompleteOf(begin, fence, body)), IsOk());
  EXPECT_EQ(ReplayedResponse().body(), body);
}

TEST_F(PayloadTest, HeadersKeepOrderCaseAndRepetition) {
  int64_t fence = 0;
  const v1::BeginRequest begin = Begun(&fence);
  v1::CompleteRequest complete = CompleteOf(begin, fence, "");
  complete.mutable_response()->set_code(-7);
  for (const char* name : {"B", "a", "A", "a", "\xc3\xa9", "\"\\", "b"}) {
    v1::Header& header = *complete.mutable_response()->add_headers();
    header.set_name(name);
    header.set_value(absl::StrCat(" value of ", name, " "));
  }
  ASSERT_THAT(client().Complete(complete), IsOk());
  EXPECT_EQ(ReplayedResponse().SerializeAsString(),
            complete.response().SerializeAsString());
}

TEST_F(PayloadTest, OmittedBodyIsSaidToBe) {
  int64_t fence = 0;
  const v1::BeginRequest begin = Begun(&fence);
  v1::CompleteRequest complete = CompleteOf(begin, fence, "");
  complete.set_body_omitted(true);
  ASSERT_THAT(client().Complete(complete), IsOk());

  const BeginReply reply = client().Begin(BeginOf(Key(), "attempt-2"));
  ASSERT_THAT(reply, IsReplayOf(""));
  EXPECT_TRUE(reply.message.replay().body_omitted());
  EXPECT_EQ(reply.message.replay().response().code(), 201);
  // An empty body is another response than one left out.
  complete.set_body_omitted(false);
  EXPECT_THAT(
      client().Complete(complete),
      IsRefused(grpc::StatusCode::FAILED_PRECONDITION, "RESPONSE_CONFLICT"));
}

// A limit raised on one side only shows when the other side reads.
TEST_F(PayloadTest, WhatIsAcceptedCanBeReplayedByADefaultClient) {
  const std::shared_ptr<grpc::Channel> plain = grpc::CreateChannel(
      Shared().server().address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::DedupeService::NewStub(plain);
  for (const size_t bytes : {kBodyMax - 1, kBodyMax}) {
    const v1::BeginRequest begin =
        BeginOf(Key(absl::StrCat("/", bytes)), "attempt-1");
    v1::CompleteRequest complete =
        CompleteOf(begin, client().Begin(begin).message.started().fence(),
                   std::string(bytes, '\xff'));
    // Headers at their own limit too.
    for (int i = 0; i < 64; ++i) {
      v1::Header& header = *complete.mutable_response()->add_headers();
      header.set_name("n");
      header.set_value(std::string(255, 'v'));
    }
    ASSERT_THAT(client().Complete(complete), IsOk());
    for (const bool by_lookup : {false, true}) {
      grpc::ClientContext context;
      v1::BeginResponse replay;
      v1::LookupResponse lookup;
      const grpc::Status status =
          by_lookup ? stub->Lookup(&context, LookupOf(begin), &lookup)
                    : stub->Begin(&context, begin, &replay);
      ASSERT_TRUE(status.ok()) << Describe(status);
      EXPECT_EQ((by_lookup ? lookup.response() : replay.replay().response())
                    .SerializeAsString(),
                complete.response().SerializeAsString());
    }
  }
}

TEST_F(PayloadTest, TooLargeIsRefusedAndTheLeaseStays) {
  int64_t fence = 0;
  const v1::BeginRequest begin = Begun(&fence);
  EXPECT_THAT(client().Complete(
                  CompleteOf(begin, fence, std::string(kBodyMax + 1, 'b'))),
              IsRefused(kInvalid, "RESPONSE_TOO_LARGE"));
  for (const size_t mebibytes : {1u, 4u, 16u}) {
    EXPECT_THAT(client().Complete(CompleteOf(
                    begin, fence, std::string(mebibytes << 20, 'b'))),
                IsRefused(grpc::StatusCode::RESOURCE_EXHAUSTED, ""));
  }
  EXPECT_EQ(client().StateOf(begin), v1::RECORD_STATE_IN_PROGRESS);
  EXPECT_THAT(client().Complete(CompleteOf(begin, fence, "smaller")), IsOk());
}

// Status texts have a limit too, beyond which clients hang. An answer within a
// second, on a machine that may be busy.
TEST_F(PayloadTest, HugeKeyIsRefusedQuicklyAndNotEchoed) {
  struct Huge {
    size_t bytes;
    grpc::StatusCode code;
  };
  for (const Huge& huge :
       {Huge{(1 << 20) - 1024, grpc::StatusCode::INVALID_ARGUMENT},
        Huge{1 << 20, grpc::StatusCode::RESOURCE_EXHAUSTED},
        Huge{8 << 20, grpc::StatusCode::RESOURCE_EXHAUSTED}}) {
    const std::string text(huge.bytes, 'h');
    for (const bool in_key : {true, false}) {
      v1::BeginRequest request = BeginOf(Key(), "attempt-1");
      if (in_key) {
        request.set_key(text);
      } else {
        request.set_client_id(text);
      }
      const absl::Time start = absl::Now();
      const BeginReply reply = client().Begin(request);
      const absl::Duration took = absl::Now() - start;
      EXPECT_EQ(reply.status.error_code(), huge.code);
      ExpectHarmless(reply.status, "hhhh");
      EXPECT_LE(took, absl::Seconds(1));
      absl::PrintF("%d bytes: code %d after %.0f ms\n", huge.bytes,
                   reply.status.error_code(), absl::ToDoubleMilliseconds(took));
    }
  }
}

}  // namespace
}  // namespace dedupe::testing
