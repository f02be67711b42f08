// Messages as no client library would make them: refused in a way that says
// whose fault it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/end_to_end/bad_input/request_rows.h"

namespace dedupe::testing {
namespace {

TEST_F(BadInputTest, B04TextThatIsNotUtf8IsMalformed) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const v1::CompleteRequest complete = CompleteOf(begin, 1, "body");
  for (const std::string& text :
       {std::string("\xff\xfe"), std::string("\xed\xa0\x80"),
        std::string("\xc0\x80"), std::string("\xf5\x80\x80\x80"),
        std::string("\xc3"), std::string("a\x80z")}) {
    // client_id, key, operation, attempt_id.
    for (const int field : {1, 2, 3, 5}) {
      EXPECT_THAT(
          Send("Begin", begin.SerializeAsString() + FieldBytes(field, text)),
          IsRefused(kInvalid, "MESSAGE_MALFORMED"));
    }
    // A header's name and value, within the response.
    for (const int field : {1, 2}) {
      EXPECT_THAT(
          Send("Complete",
               complete.SerializeAsString() +
                   FieldBytes(5, FieldBytes(2, FieldBytes(field, text)))),
          IsRefused(kInvalid, "MESSAGE_MALFORMED"));
    }
  }
  EXPECT_EQ(CountRows(), "0");
}

TEST_F(BadInputTest, B30FieldsOfALaterVersionAreDropped) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const RawReply reply = Send(
      "Begin", begin.SerializeAsString() + FieldBytes(15, "of the future"));
  v1::BeginResponse response;
  ASSERT_TRUE(response.ParseFromString(reply.message));
  EXPECT_TRUE(response.has_started());
  EXPECT_EQ(SqlValue(Shared().url(),
                     absl::StrCat("SELECT count(*) FROM dedupe.record AS r"
                                  " WHERE key = '",
                                  Key(), "' AND r::text LIKE '%future%'")),
            "0");
}

TEST_F(BadInputTest, B31EmptyMessageIsRefusedByEveryMethod) {
  for (const char* method : kMethods) {
    EXPECT_THAT(Send(method, ""),
                IsRefused(kInvalid, std::string(method) == "Complete"
                                        ? "RESPONSE_MISSING"
                                        : "CLIENT_ID_EMPTY"))
        << method;
  }
}

TEST_F(BadInputTest, B45TruncatedMessageIsRefusedWhereverItEnds) {
  const std::string whole = BeginOf(Key(), "attempt-1").SerializeAsString();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(Send("Begin", whole.substr(0, bytes)).status.error_code(),
              kInvalid)
        << bytes;
  }
  EXPECT_EQ(CountRows(), "0");
}

// Some of it parses, as a message without any field that we know.
TEST_F(BadInputTest, B45RandomBytesAreRefused) {
  const std::string moment = Now();
  std::mt19937 random(1);
  int malformed = 0;
  for (int round = 0; round < 100; ++round) {
    std::string bytes(1 + random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    for (const char* method : kMethods) {
      const RawReply reply = Send(method, bytes);
      EXPECT_EQ(reply.status.error_code(), kInvalid);
      malformed += ReasonOf(reply.status) == "MESSAGE_MALFORMED" ? 1 : 0;
    }
  }
  EXPECT_GT(malformed, 400);
  EXPECT_EQ(CountChangesSince(moment), "0");
}

TEST_F(BadInputTest, B45WhatProtobufRefusesIsMalformedToEveryMethod) {
  const std::string nested(200, '\x7b');  // The start of a group, 200 deep.
  const std::string overflow = "\x08" + std::string(11, '\xff');
  const std::string too_long = "\x12\xff\xff\xff\xff\x07key";
  for (const std::string& bytes : {nested, overflow, too_long}) {
    for (const char* method : kMethods) {
      EXPECT_THAT(Send(method, bytes),
                  IsRefused(kInvalid, "MESSAGE_MALFORMED"));
    }
  }
}

// Switched off, it is as unknown as any other.
TEST_F(BadInputTest, B52ReflectionCanBeSwitchedOff) {
  const std::string path =
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  Deployment silent({"--reflection=false"});
  EXPECT_THAT(CallRaw(silent.client().channel(), path, ""),
              IsRefused(grpc::StatusCode::UNIMPLEMENTED, ""));
  EXPECT_THAT(CallRaw(client().channel(), path, ""), IsOk());
}

}  // namespace
}  // namespace dedupe::testing
