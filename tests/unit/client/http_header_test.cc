// Reading and writing the Idempotency-Key header.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dedupe/http.h"
#include "dedupe/key.h"

namespace dedupe::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// "key KEY", "missing" or "malformed: WHY".
std::string Read(const std::vector<std::string>& values) {
  const KeyHeader header = ReadIdempotencyKey(values);
  if (const auto* key = std::get_if<std::string>(&header)) return "key " + *key;
  if (const auto* malformed = std::get_if<KeyMalformed>(&header)) {
    return "malformed: " + malformed->why;
  }
  return "missing";
}

constexpr char kNotClosed[] = "malformed: the string is not closed";
constexpr char kNotAscii[] =
    "malformed: the string holds more than printable ASCII";
constexpr char kBadEscape[] =
    "malformed: a backslash stands before neither \" nor \\";
constexpr char kTrailing[] = "malformed: something follows the string";
constexpr char kNotBare[] =
    "malformed: without quotes, a key is visible ASCII without \" \\ , and ;";
constexpr char kEmpty[] = "malformed: the key is empty";
constexpr char kTooLong[] = "malformed: the key is longer than 255 bytes";

TEST(ReadIdempotencyKeyTest, QuotedAndBareNameTheSameKey) {
  EXPECT_EQ(Read({R"("order-42")"}), "key order-42");
  EXPECT_EQ(Read({"order-42"}), "key order-42");
  EXPECT_EQ(Read({R"("8e03978e-40d5-43dd-bc93-6894a57f9324")"}),
            "key 8e03978e-40d5-43dd-bc93-6894a57f9324");
}

TEST(ReadIdempotencyKeyTest, SpaceAroundIsNotOfTheKey) {
  EXPECT_EQ(Read({" \t\"order-42\"\t "}), "key order-42");
  EXPECT_EQ(Read({"  order-42 "}), "key order-42");
  EXPECT_EQ(Read({R"(" order 42 ")"}), "key  order 42 ");
}

TEST(ReadIdempotencyKeyTest, EscapesAreUndone) {
  EXPECT_EQ(Read({R"("a\"b\\c")"}), R"(key a"b\c)");
  EXPECT_EQ(Read({R"("\\")"}), R"(key \)");
}

TEST(ReadIdempotencyKeyTest, ACommaInQuotesIsOfTheKey) {
  EXPECT_EQ(Read({R"("a,b;c=d")"}), "key a,b;c=d");
}

TEST(ReadIdempotencyKeyTest, ParametersAreIgnored) {
  for (const char* parameters :
       {";a", ";a=1", "; a=1;b=?0", ";  *k-1_.*=token/x:y", ";a=\"x;\\\"y,\"",
        ";a=:aGVsbG8=:", ";a=:aGVsbA==:", ";a=-1.5"}) {
    EXPECT_EQ(Read({std::string(R"("order-42")") + parameters}), "key order-42")
        << parameters;
  }
}

TEST(ReadIdempotencyKeyTest, NoLineIsMissing) {
  EXPECT_EQ(Read({}), "missing");
}

TEST(ReadIdempotencyKeyTest, TwoLinesAreMalformedEvenIfEqual) {
  constexpr char kTwice[] = "malformed: the header is there more than once";
  EXPECT_EQ(Read({"a", "b"}), kTwice);
  EXPECT_EQ(Read({R"("a")", R"("a")"}), kTwice);
  EXPECT_EQ(Read({"", ""}), kTwice);
  // Joined on the way (RFC 9110, section 5.3).
  EXPECT_EQ(Read({R"("a", "b")"}), kTrailing);
  EXPECT_EQ(Read({R"("a";x=1, "b")"}), kTrailing);
  EXPECT_EQ(Read({R"("a";x="y", "b")"}), kTrailing);
  EXPECT_EQ(Read({"a, b"}), kNotBare);
  EXPECT_EQ(Read({"a,b"}), kNotBare);
}

struct Malformed {
  std::string value;
  const char* why;
};

TEST(ReadIdempotencyKeyTest, TellsWhyItIsMalformed) {
  const Malformed cases[] = {
      {"", kEmpty},
      {"  ", kEmpty},
      {R"("")", kEmpty},
      {R"("";a=1)", kEmpty},
      {R"(")", kNotClosed},
      {R"("order-42)", kNotClosed},
      {R"("order-42\")", kNotClosed},
      {R"("order-42\)", kNotClosed},
      {R"("a\b")", kBadEscape},
      {R"("a\ ")", kBadEscape},
      {"\"a\tb\"", kNotAscii},
      {"\"a\nb\"", kNotAscii},
      {"\"a\x7f\"", kNotAscii},
      {std::string("\"a\0b\"", 5), kNotAscii},
      {"\"cl\u00e9\"", kNotAscii},
      {"\"\\\u00e9\"", kNotAscii},
      {R"("a"b)", kTrailing},
      {R"("a" ;b)", kTrailing},
      {R"("a";)", kTrailing},
      {R"("a"; ;b)", kTrailing},
      {R"("a";B)", kTrailing},
      {R"("a";1)", kTrailing},
      {R"("a";b=)", kTrailing},
      {R"("a";b="c)", kTrailing},
      {R"("a";b=c d)", kTrailing},
      {R"("a""b")", kTrailing},
      {R"(order"42)", kNotBare},
      {R"(order\42)", kNotBare},
      {"order 42", kNotBare},
      {"order;a=1", kNotBare},
      {"cl\u00e9", kNotBare},
      {"a\x7f", kNotBare},
      {std::string("a\0b", 3), kNotBare},
  };
  for (const auto& [value, why] : cases) {
    EXPECT_EQ(Read({value}), why) << value;
  }
}

TEST(ReadIdempotencyKeyTest, TheLengthIsBounded) {
  const std::string longest(kKeyBytesMax, 'k');
  EXPECT_EQ(Read({longest}), "key " + longest);
  EXPECT_EQ(Read({'"' + longest + '"'}), "key " + longest);
  EXPECT_EQ(Read({longest + 'k'}), kTooLong);
  EXPECT_EQ(Read({'"' + longest + "k\""}), kTooLong);
  // Counted without the escapes.
  std::string escaped;
  for (size_t i = 0; i < kKeyBytesMax; ++i) escaped += R"(\")";
  EXPECT_EQ(Read({'"' + escaped + '"'}),
            "key " + std::string(kKeyBytesMax, '"'));
  EXPECT_EQ(Read({std::string(1'000'000, 'k')}), kTooLong);
}

// It gets into answers and logs.
TEST(ReadIdempotencyKeyTest, NeverQuotesTheHeader) {
  for (const char* value :
       {"secret4711\x01", "\"secret4711", "\"secret4711\"x", "secret4711 x"}) {
    EXPECT_THAT(Read({value}), Not(HasSubstr("4711")));
  }
}

// --- Writing -----------------------------------------------------------------

TEST(FormatIdempotencyKeyTest, Quotes) {
  EXPECT_EQ(FormatIdempotencyKey("order-42").value_or(""), R"("order-42")");
  EXPECT_EQ(FormatIdempotencyKey(R"(a"b\c)").value_or(""), R"("a\"b\\c")");
}

// A caller's own key arrives as it is, never replaced or changed.
TEST(FormatIdempotencyKeyTest, WhatIsWrittenIsRead) {
  std::vector<std::string> keys = {
      "order-42", " ",       " a ",    "\"",
      "\\",       "a,b;c=d", NewKey(), std::string(255, '\\')};
  for (char byte = ' '; byte <= '~'; ++byte) keys.emplace_back(1, byte);
  for (const std::string& key : keys) {
    EXPECT_EQ(Read({FormatIdempotencyKey(key).value_or("")}), "key " + key);
  }
}

TEST(FormatIdempotencyKeyTest, RefusesWhatAHeaderCannotHold) {
  for (const std::string& key :
       {std::string(), std::string(256, 'k'), std::string("a\0b", 3),
        std::string("a\tb"), std::string("a\r\nX: y"), std::string("a\x7f"),
        std::string("cl\u00e9")}) {
    EXPECT_EQ(FormatIdempotencyKey(key).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace dedupe::client
