// The whole life of one key, as a program sees it that shares nothing with ours
// but the wire: every step is a call of grpcurl, which learns the API from the
// server's reflection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/deployment.h"
#include "tests/support/grpcurl.h"

namespace dedupe::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string Base64(const std::string& bytes) {
  return absl::Base64Escape(bytes);
}

// In protobuf's JSON a Duration is "0.250s".
double Seconds(const json& duration) {
  const std::string text = duration.get<std::string>();
  double seconds = 0;
  EXPECT_TRUE(absl::SimpleAtod(text.substr(0, text.size() - 1), &seconds));
  return seconds;
}

// And an int64 is a string.
int64_t Integer(const json& text) {
  int64_t number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text.get<std::string>(), &number)) << text;
  return number;
}

class ProtocolTest : public EndToEndTest {
 protected:
  void SetUp() override {
    if (!HasGrpcurl()) {
      GTEST_SKIP() << "grpcurl is not in PATH; ./dev test installs it where"
                      " there is Go";
    }
  }

  GrpcurlReply Call(const std::string& method, const json& request) {
    return Grpcurl(Shared().server().address()).Call(method, request);
  }

  // The outcome's own fields; null where another came, which is a failure.
  json Begin(const std::string& outcome, const json& request) {
    const GrpcurlReply reply = Call("Begin", request);
    if (!reply.ok || !reply.message.contains(outcome)) {
      ADD_FAILURE() << "wanted " << outcome << ", got " << reply.message
                    << reply.error;
      return nullptr;
    }
    EXPECT_TRUE(reply.message.contains("decided_at"));
    return reply.message[outcome];
  }

  json Request(const std::string& attempt_id) const {
    return {{"client_id", "acme"},
            {"key", Key()},
            {"operation", "POST /v1/charges"},
            {"fingerprint", Base64(std::string(32, '1'))},
            {"attempt_id", attempt_id},
            {"lease", "30s"},
            {"ttl", "2s"}};
  }
};

// JSON that any JSON column would change, and bytes that no text column takes.
const char kBody[] = "{\"b\":1, \"a\":1.0,\"a\":2}\0\xff\xfe";

TEST_F(ProtocolTest, OneKeyLivesThroughEveryOutcome) {
  const std::string body(kBody, sizeof(kBody) - 1);
  const json first = Request("attempt-1");
  const json second = Request("attempt-2");

  const json started = Begin("started", first);
  ASSERT_FALSE(started.is_null());
  EXPECT_EQ(started["attempt_number"], 1);
  EXPECT_EQ(started["resumed"], false);
  EXPECT_EQ(started["taken_over"], false);
  const int64_t fence = Integer(started["fence"]);
  EXPECT_GT(fence, 0);

  const json in_progress = Begin("in_progress", second);
  ASSERT_FALSE(in_progress.is_null());
  EXPECT_GT(Seconds(in_progress["retry_after"]), 0);

  const json resumed = Begin("started", first);
  ASSERT_FALSE(resumed.is_null());
  EXPECT_EQ(resumed["resumed"], true);
  EXPECT_EQ(Integer(resumed["fence"]), fence);

  json other_request = second;
  other_request["fingerprint"] = Base64(std::string(32, '2'));
  const json mismatch = Begin("mismatch", other_request);
  ASSERT_FALSE(mismatch.is_null());
  EXPECT_EQ(mismatch.size(), 1u) << mismatch;

  json completion = {
      {"client_id", "acme"},
      {"key", Key()},
      {"attempt_id", "attempt-1"},
      {"fence", std::to_string(fence)},
      {"response",
       {{"code", 201},
        {"headers", {{{"name", "Location"}, {"value", "/v1/charges/1"}}}},
        {"body", Base64(body)}}}};
  const GrpcurlReply completed = Call("Complete", completion);
  ASSERT_TRUE(completed.ok) << completed.error;
  EXPECT_EQ(completed.message["already_completed"], false);

  const GrpcurlReply again = Call("Complete", completion);
  ASSERT_TRUE(again.ok) << again.error;
  EXPECT_EQ(again.message["already_completed"], true);
  EXPECT_EQ(again.message["completed_at"], completed.message["completed_at"]);

  json other_response = completion;
  other_response["response"]["code"] = 202;
  const GrpcurlReply conflict = Call("Complete", other_response);
  EXPECT_FALSE(conflict.ok);
  EXPECT_THAT(conflict.error,
              AllOf(HasSubstr("Code: FailedPrecondition"),
                    HasSubstr("google.rpc.ErrorInfo"),
                    ContainsRegex("\"reason\": *\"RESPONSE_CONFLICT\"")));

  const json replay = Begin("replay", second);
  ASSERT_FALSE(replay.is_null());
  EXPECT_EQ(replay["response"], completion["response"]);
  EXPECT_EQ(replay["completed_at"], completed.message["completed_at"]);

  EXPECT_FALSE(Begin("mismatch", other_request).is_null());

  const GrpcurlReply lookup =
      Call("Lookup", {{"client_id", "acme"}, {"key", Key()}});
  ASSERT_TRUE(lookup.ok) << lookup.error;
  EXPECT_EQ(lookup.message["state"], "RECORD_STATE_COMPLETED");
  EXPECT_EQ(lookup.message["response"], completion["response"]);

  json other_client = first;
  other_client["client_id"] = "globex";
  EXPECT_FALSE(Begin("started", other_client).is_null());

  // The real clock: the ttl is two seconds, counted from the completion.
  absl::SleepFor(absl::Seconds(3));
  const json anew = Begin("started", second);
  ASSERT_FALSE(anew.is_null());
  EXPECT_GT(Integer(anew["fence"]), fence);
  EXPECT_EQ(anew["attempt_number"], 1);
  EXPECT_EQ(anew["taken_over"], false);
  absl::PrintF("fence %d, anew %d; a retry hint of %.3f s\n", fence,
               Integer(anew["fence"]), Seconds(in_progress["retry_after"]));
}

// The bug: reflection listed the health service and could not describe it.
TEST_F(ProtocolTest, HealthNeedsNoProtoFile) {
  for (const char* name : {"", "liveness", "readiness"}) {
    const GrpcurlReply reply =
        Call("grpc.health.v1.Health/Check", {{"service", name}});
    ASSERT_TRUE(reply.ok) << reply.error;
    EXPECT_EQ(reply.message.at("status"), "SERVING");
  }
}

TEST_F(ProtocolTest, ReflectionShowsTheService) {
  EXPECT_THAT(Grpcurl(Shared().server().address()).ListServices(),
              AllOf(HasSubstr("dedupe.v1.DedupeService"),
                    HasSubstr("grpc.health.v1.Health")));
}

TEST_F(ProtocolTest, WithoutReflectionTheServiceIsNotShown) {
  Deployment silent({"--reflection=false"});
  const Grpcurl grpcurl(silent.server().address());

  EXPECT_THAT(grpcurl.ListServices(),
              HasSubstr("server does not support the reflection API"));
  const GrpcurlReply known =
      grpcurl.Call("Lookup", {{"client_id", "acme"}, {"key", Key()}},
                   {"-import-path", SourceDirectory() + "/proto", "-proto",
                    "dedupe/v1/dedupe.proto"});
  ASSERT_TRUE(known.ok) << known.error;
  EXPECT_EQ(known.message["state"], "RECORD_STATE_ABSENT");
}

}  // namespace
}  // namespace dedupe::testing
