// Texts that are not UTF-8 stop at the message. Nothing behind it can bear
// them: the JSON writer of the headers throws, and PostgreSQL refuses.
#include <gmock/gmock.h>
#include <google/protobuf/stubs/common.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "dedupe/v1/dedupe.pb.h"
#include "server/service/validation.h"
#include "server/store/decode.h"

namespace dedupe {
namespace {

constexpr const char* kNotUtf8[] = {
    "\xff\xfe",
    "\x80",              // Begins in the middle of a character.
    "\xc3",              // Ends in the middle of one.
    "\xc0\x80",          // NUL, longer than it has to be.
    "\xc1\xbf",          // The same of U+007F.
    "\xe0\x80\x8a",      // The same of a line feed.
    "\xed\xa0\x80",      // Half of a surrogate pair.
    "\xf4\x90\x80\x80",  // Past the last character.
    "\xf8\x88\x80\x80\x80",
};

// protobuf says so on standard error each time, a million times here.
class Utf8Test : public ::testing::Test {
 protected:
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::LogSilencer silencer_;
#endif
};

// One text field, of any message, by its wire form: the number of the field
// and of those that hold it.
struct TextField {
  const char* name;
  // Whether a message with that text can be parsed.
  std::function<bool(const std::string&)> parses;
};

// Lengths below 128 are one byte on the wire.
std::string Field(char number, const std::string& bytes) {
  return std::string({static_cast<char>(number << 3 | 2),
                      static_cast<char>(bytes.size())}) +
         bytes;
}

template <typename Request>
TextField TopField(const char* name, char number) {
  return {name, [number](const std::string& text) {
            return Request().ParseFromString(Field(number, text));
          }};
}

TextField HeaderField(const char* name, char number) {
  return {name, [number](const std::string& text) {
            const std::string header = Field(2, Field(number, text));
            return v1::CompleteRequest().ParseFromString(Field(5, header));
          }};
}

class TextFieldTest : public Utf8Test,
                      public ::testing::WithParamInterface<TextField> {};

TEST_P(TextFieldTest, WhatIsNotUtf8DoesNotParse) {
  for (const char* text : kNotUtf8) {
    EXPECT_FALSE(GetParam().parses(text)) << ::testing::PrintToString(text);
    EXPECT_FALSE(GetParam().parses(std::string("pay-") + text + "1"))
        << ::testing::PrintToString(text);
  }
}

TEST_P(TextFieldTest, Utf8Parses) {
  for (const char* text : {"", "pay-1", "\xc3\xa9", "e\xcc\x81", "\xef\xbf\xbf",
                           "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(GetParam().parses(text)) << ::testing::PrintToString(text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TextFieldTest,
    ::testing::Values(TopField<v1::BeginRequest>("BeginClientId", 1),
                      TopField<v1::BeginRequest>("BeginKey", 2),
                      TopField<v1::BeginRequest>("BeginOperation", 3),
                      TopField<v1::BeginRequest>("BeginAttemptId", 5),
                      TopField<v1::CompleteRequest>("CompleteClientId", 1),
                      TopField<v1::CompleteRequest>("CompleteKey", 2),
                      TopField<v1::CompleteRequest>("CompleteAttemptId", 3),
                      HeaderField("HeaderName", 1),
                      HeaderField("HeaderValue", 2),
                      TopField<v1::ExtendRequest>("ExtendClientId", 1),
                      TopField<v1::ExtendRequest>("ExtendKey", 2),
                      TopField<v1::ExtendRequest>("ExtendAttemptId", 3),
                      TopField<v1::ReleaseRequest>("ReleaseClientId", 1),
                      TopField<v1::ReleaseRequest>("ReleaseKey", 2),
                      TopField<v1::ReleaseRequest>("ReleaseAttemptId", 3),
                      TopField<v1::LookupRequest>("LookupClientId", 1),
                      TopField<v1::LookupRequest>("LookupKey", 2)),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(Utf8Test, BytesMayBeAnything) {
  for (const char* bytes : kNotUtf8) {
    EXPECT_TRUE(v1::BeginRequest().ParseFromString(Field(4, bytes)));
    EXPECT_TRUE(v1::ExtendRequest().ParseFromString(Field(6, bytes)));
    EXPECT_TRUE(
        v1::CompleteRequest().ParseFromString(Field(5, Field(3, bytes))));
  }
}

// --- The messages' judge of UTF-8 against the JSON writer's ------------------

// A difference of opinion would be an exception on a thread of the store, and
// so the end of the server, at the wish of any caller.
void ExpectNoHarm(const std::string& text) {
  v1::Header header;
  const bool passes = header.ParseFromString(Field(2, text)) &&
                      !HasControlCharacter(header.value());
  if (!passes) return;
  std::string json;
  ASSERT_NO_THROW(json = EncodeHeaders({{"n", text}}))
      << ::testing::PrintToString(text);
  const auto decoded = DecodeHeaders(json);
  ASSERT_TRUE(decoded.ok()) << ::testing::PrintToString(text);
  ASSERT_EQ(decoded->front().value, text);
}

// Where the classes of bytes of UTF-8 begin and end.
constexpr unsigned char kEdges[] = {
    0x20, 0x7e, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
    0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};

TEST_F(Utf8Test, AllThatParsesCanBeWritten) {
  std::vector<std::string> texts = {""};
  // Every text of up to four such bytes.
  for (size_t begin = 0, length = 1; length <= 4; ++length) {
    const size_t end = texts.size();
    for (; begin < end; ++begin) {
      for (const unsigned char byte : kEdges) {
        texts.push_back(texts[begin] + static_cast<char>(byte));
      }
    }
  }
  for (const std::string& text : texts) {
    ASSERT_NO_FATAL_FAILURE(ExpectNoHarm(text));
  }
}

TEST_F(Utf8Test, RandomBytesThatParseCanBeWritten) {
  std::mt19937 random(20250103);
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (auto left = 1 + random() % 6; left > 0; --left) {
      text += static_cast<char>(random() % 256);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectNoHarm(text));
  }
}

}  // namespace
}  // namespace dedupe
