// CanonicalJson against what others have published (RFC 8785 and the test data
// of its authors) and computed (Node.js), and what it refuses.
#include "client/src/canonical_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/src/digest.h"
#include "dedupe/fingerprint.h"

namespace dedupe::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The canonical form, or "refused".
std::string Canonical(absl::string_view text) {
  const auto canonical = CanonicalJson(text);
  if (canonical.ok()) return *canonical;
  EXPECT_EQ(canonical.status().code(), absl::StatusCode::kInvalidArgument);
  return "refused";
}

struct Pair {
  const char* text;
  const char* canonical;
};

// --- Published ---------------------------------------------------------------

// RFC 8785, section 3.2.2.
TEST(CanonicalJsonTest, WritesTheRfcsSampleDocument) {
  EXPECT_EQ(Canonical(R"({
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3,
                0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  })"),
            R"({"literals":[null,true,false],"numbers":)"
            R"([333333333.3333333,1e+30,4.5,0.002,1e-27],)"
            R"("string":"€$\u000f\nA'B\"\\\\\"/"})");
}

// RFC 8785, section 3.2.3.
TEST(CanonicalJsonTest, SortsTheRfcsSampleDocument) {
  EXPECT_EQ(Canonical(R"({
    "\u20ac": "Euro Sign",
    "\r": "Carriage Return",
    "\ufb33": "Hebrew Letter Dalet With Dagesh",
    "1": "One",
    "\ud83d\ude00": "Emoji: Grinning Face",
    "\u0080": "Control",
    "\u00f6": "Latin Small Letter O With Diaeresis"
  })"),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\","
            "\"\u0080\":\"Control\","
            "\"\u00f6\":\"Latin Small Letter O With Diaeresis\","
            "\"\u20ac\":\"Euro Sign\","
            "\"\U0001F600\":\"Emoji: Grinning Face\","
            "\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}");
}

// The test data of the RFC's authors: structures, arrays, unicode, french.
TEST(CanonicalJsonTest, WritesTheAuthorsTestData) {
  const Pair pairs[] = {
      {R"({"1": {"f": {"f": "hi","F": 5} ,"\n": 56.0}, "10": { }, "": "empty",
           "a": { }, "111": [ {"e": "yes","E": "no" } ], "A": { }})",
       R"({"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},)"
       R"("111":[{"E":"no","e":"yes"}],"A":{},"a":{}})"},
      {R"([56, {"d": true, "10": null, "1": [ ]}])",
       R"([56,{"1":[],"10":null,"d":true}])"},
      {R"({"Unnormalized Unicode":"A\u030a"})",
       "{\"Unnormalized Unicode\":\"A\u030a\"}"},
      {R"({"peach": "This sorting order",
           "p\u00e9ch\u00e9": "is wrong according to French",
           "p\u00eache": "but canonicalization MUST",
           "sin": "ignore locale"})",
       "{\"peach\":\"This sorting order\","
       "\"p\u00e9ch\u00e9\":\"is wrong according to French\","
       "\"p\u00eache\":\"but canonicalization MUST\","
       "\"sin\":\"ignore locale\"}"},
  };
  for (const auto& [text, canonical] : pairs) {
    EXPECT_EQ(Canonical(text), canonical);
  }
}

// --- Numbers -----------------------------------------------------------------

// RFC 8785, appendix B, but for NaN and infinity, which JSON cannot write.
TEST(JavaScriptNumberTest, WritesTheRfcsTable) {
  const std::pair<uint64_t, const char*> table[] = {
      {0x0000000000000000, "0"},
      {0x8000000000000000, "0"},
      {0x0000000000000001, "5e-324"},
      {0x8000000000000001, "-5e-324"},
      {0x7fefffffffffffff, "1.7976931348623157e+308"},
      {0xffefffffffffffff, "-1.7976931348623157e+308"},
      {0x4340000000000000, "9007199254740992"},
      {0xc340000000000000, "-9007199254740992"},
      {0x4430000000000000, "295147905179352830000"},
      {0x44b52d02c7e14af5, "9.999999999999997e+22"},
      {0x44b52d02c7e14af6, "1e+23"},
      {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
      {0x444b1ae4d6e2ef4e, "999999999999999700000"},
      {0x444b1ae4d6e2ef4f, "999999999999999900000"},
      {0x444b1ae4d6e2ef50, "1e+21"},
      {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
      {0x3eb0c6f7a0b5ed8d, "0.000001"},
      {0x41b3de4355555553, "333333333.3333332"},
      {0x41b3de4355555554, "333333333.33333325"},
      {0x41b3de4355555555, "333333333.3333333"},
      {0x41b3de4355555556, "333333333.3333334"},
      {0x41b3de4355555557, "333333333.33333343"},
      {0xbecbf647612f3696, "-0.0000033333333333333333"},
      {0x43143ff3c1cb0959, "1424953923781206.2"},
  };
  for (const auto& [bits, text] : table) {
    EXPECT_EQ(JavaScriptNumber(std::bit_cast<double>(bits)), text);
    // What JavaScript writes is read, and is written the same again.
    EXPECT_EQ(Canonical(text), text);
  }
}

uint64_t BigEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

// Node.js has written the same lines, and given their digest.
TEST(JavaScriptNumberTest, WritesRandomBitsAsNodeDoes) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i) {
    const std::string bytes = Sha256(absl::StrCat(i)).substr(0, 8);
    const auto number = std::bit_cast<double>(BigEndian(bytes));
    if (!std::isfinite(number)) continue;
    absl::StrAppend(&lines, LowerHex(bytes), ",", JavaScriptNumber(number),
                    "\n");
  }
  EXPECT_EQ(LowerHex(Sha256(lines)),
            "1136c3d882f1718ef958d58a93915b4da2515dc90d03ea2d46265075fb39490e");
}

TEST(JavaScriptNumberTest, WritesDecimalsAsNodeDoes) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i) {
    const std::string bytes = Sha256(absl::StrCat(i));
    const auto integer = static_cast<int32_t>(BigEndian(bytes.substr(8, 4)));
    const int places = static_cast<unsigned char>(bytes[12]) % 12;
    absl::StrAppend(&lines, JavaScriptNumber(integer / std::pow(10, places)),
                    "\n");
  }
  EXPECT_EQ(LowerHex(Sha256(lines)),
            "46c368de7c920ddf43c86e2264295f18bcb32da8420c62fc7fa790b447d82a31");
}

TEST(CanonicalJsonTest, EqualNumbersAreWrittenAlike) {
  const Pair pairs[] = {
      {"1", "1"},
      {"1.0", "1"},
      {"1e0", "1"},
      {"10E-1", "1"},
      {"0.1e+1", "1"},
      {"-0", "0"},
      {"-0.0e5", "0"},
      {"0e999999999999999999999", "0"},
      {"4.50", "4.5"},
      {"1e20", "100000000000000000000"},
      {"1e21", "1e+21"},
      {"1e-6", "0.000001"},
      {"1e-7", "1e-7"},
      {"0.1", "0.1"},
      // As RFC 8785 has it, and as fingerprint.h warns.
      {"0.10000000000000001", "0.1"},
      {"123456789.123456789", "123456789.12345679"},
  };
  for (const auto& [text, canonical] : pairs) {
    EXPECT_EQ(Canonical(text), canonical) << text;
  }
}

TEST(CanonicalJsonTest, BigNumbersAreKeptOrRefused) {
  const Pair pairs[] = {
      {"9007199254740991", "9007199254740991"},
      {"9007199254740992", "9007199254740992"},
      {"9007199254740993", "refused"},
      {"9007199254740993.0", "refused"},
      {"-9007199254740993", "refused"},
      {"9007199254740992.5", "refused"},
      {"9007199254740994", "9007199254740994"},
      {"900719925474099.3e1", "refused"},
      {"9223372036854775807", "refused"},
      {"9223372036854775808", "refused"},
      {"18446744073709551615", "refused"},
      {"18446744073709551616", "refused"},
      // A double, but JavaScript writes 1152921504606847000 for both.
      {"1152921504606846976", "refused"},
      {"1152921504606847000", "1152921504606847000"},
      {"1e23", "1e+23"},
      {"100000000000000000000000", "1e+23"},
      {"100000000000000000000001", "refused"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"1.7976931348623158e308", "refused"},
      {"1e309", "refused"},
      {"-1e309", "refused"},
      {"1e99999999999999999999", "refused"},
      {"5e-324", "5e-324"},
      {"1e-400", "refused"},
      {"-1e-99999999999999999999", "refused"},
  };
  for (const auto& [text, canonical] : pairs) {
    EXPECT_EQ(Canonical(text), canonical) << text;
  }
  EXPECT_EQ(Canonical(std::string(100'000, '9')), "refused");
  EXPECT_EQ(Canonical("1" + std::string(300, '0')), "1e+300");
  EXPECT_EQ(Canonical("0." + std::string(400, '0') + "1e401"), "1");
}

// --- Strings -----------------------------------------------------------------

TEST(CanonicalJsonTest, EscapesOnlyWhatMustBe) {
  EXPECT_EQ(Canonical(R"("\b\t\n\f\r\"\\\/\u0000\u001F\u007f\u2028")"),
            "\"\\b\\t\\n\\f\\r\\\"\\\\/\\u0000\\u001f\x7f\u2028\"");
}

TEST(CanonicalJsonTest, AnEscapeIsTheLetterItselfAndNoOther) {
  EXPECT_EQ(Canonical(R"("\u20ac")"), Canonical("\"\u20ac\""));
  EXPECT_EQ(Canonical(R"("\ud83d\uDE00")"), Canonical("\"\U0001F600\""));
  EXPECT_EQ(Canonical(R"("\/")"), Canonical(R"("/")"));
  // Composed and decomposed.
  EXPECT_NE(Canonical("\"\u00e9\""), Canonical("\"e\u0301\""));
}

TEST(CanonicalJsonTest, RefusesWhatIsNotUtf8) {
  const char* const texts[] = {
      "\"\xff\"",                      // No byte of UTF-8.
      "\"\x80\"",                      // A continuation alone.
      "\"\xc3\"",                      // Cut off.
      "\"\xe2\x82\"",                  //
      "\"\xc0\xaf\"",                  // Overlong.
      "\"\xc1\xbf\"",                  //
      "\"\xe0\x80\xaf\"",              //
      "\"\xf0\x80\x80\xaf\"",          //
      "\"\xed\xa0\x80\"",              // A surrogate.
      "\"\xed\xbf\xbf\"",              //
      "\"\xed\xa0\xbd\xed\xb8\x80\"",  // A pair of them.
      "\"\xf4\x90\x80\x80\"",          // Above U+10FFFF.
      "\"\xf5\x80\x80\x80\"",          //
      "{\"\xff\":1}",
  };
  for (const char* text : texts) EXPECT_EQ(Canonical(text), "refused") << text;
}

TEST(CanonicalJsonTest, RefusesLoneSurrogates) {
  for (const char* text :
       {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")",
        R"("\ude00\ud83d")", R"({"\ud83d":1})", R"("\ud83d\")"}) {
    EXPECT_EQ(Canonical(text), "refused") << text;
  }
}

// --- Structure ---------------------------------------------------------------

// U+10000 and above are pairs of surrogates in UTF-16, and come before U+E000.
TEST(CanonicalJsonTest, SortsByUtf16NotByCodePoint) {
  EXPECT_EQ(Canonical("{\"\uffff\":1,\"\ue000\":2,\"\U00010000\":3,"
                      "\"\U0010ffff\":4,\"\ud7ff\":5,\"\":6,\"a\uffff\":7,"
                      "\"a\U00010000\":8,\"a\":9}"),
            "{\"\":6,\"a\":9,\"a\U00010000\":8,\"a\uffff\":7,\"\ud7ff\":5,"
            "\"\U00010000\":3,\"\U0010ffff\":4,\"\ue000\":2,\"\uffff\":1}");
}

TEST(CanonicalJsonTest, RefusesAMemberNamedTwice) {
  for (const char* text : {R"({"a":1,"a":1})", R"({"a":1,"b":2,"a":3})",
                           R"({"a":1,"\u0061":2})", R"([{"x":{"":1,"":2}}])"}) {
    EXPECT_EQ(Canonical(text), "refused") << text;
  }
  EXPECT_EQ(Canonical(R"({"a":{"a":1},"A":1})"), R"({"A":1,"a":{"a":1}})");
}

TEST(CanonicalJsonTest, AbsentNullAndEmptyDiffer) {
  EXPECT_EQ(Canonical("{}"), "{}");
  EXPECT_EQ(Canonical("[]"), "[]");
  EXPECT_EQ(Canonical(R"({"a":null})"), R"({"a":null})");
  EXPECT_EQ(Canonical(R"({"a":""})"), R"({"a":""})");
  EXPECT_EQ(Canonical("[null]"), "[null]");
  EXPECT_EQ(Canonical(R"("")"), R"("")");
  EXPECT_EQ(Canonical("null"), "null");
}

TEST(CanonicalJsonTest, RefusesWhatIsNotJson) {
  for (const char* text :
       {"",         " ",        "nul",  "NULL",   "True",       "NaN",
        "Infinity", "-",        "+1",   "01",     "1.",         ".5",
        "1e",       "0x10",     "'a'",  "\"a",    "\"\\x\"",    "\"\\u12g4\"",
        "\"a\nb\"", "[1,]",     "[,1]", "[1 2]",  "{\"a\":1,}", "{a:1}",
        "{\"a\"}",  "{\"a\":}", "[1}",  "]",      "1 1",        "[]x",
        "// c\n1",  "/* c */1", "\v1",  "\u00a01"}) {
    EXPECT_EQ(Canonical(text), "refused") << text;
  }
}

TEST(CanonicalJsonTest, RefusesAByteOrderMark) {
  EXPECT_EQ(Canonical("\xef\xbb\xbf{}"), "refused");
  EXPECT_EQ(Canonical("\xef\xbb\xbf"), "refused");
  EXPECT_EQ(Canonical(absl::string_view("{\0}\0", 4)), "refused");
}

// What follows would be passed over, so two texts would be one.
TEST(CanonicalJsonTest, RefusesANulAnywhere) {
  for (const absl::string_view text :
       {absl::string_view("1\0", 2), absl::string_view("1\0garbage", 9),
        absl::string_view("\0", 1), absl::string_view("\"a\0b\"", 5)}) {
    EXPECT_EQ(Canonical(text), "refused");
  }
}

TEST(CanonicalJsonTest, RefusesEveryTruncation) {
  const std::string text =
      R"({"a":[1.5e3,true,null,"\u00e9\ud83d\ude00"],"b":{"c":false}})";
  ASSERT_NE(Canonical(text), "refused");
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(Canonical(absl::string_view(text).substr(0, size)), "refused")
        << size;
  }
}

std::string Nested(size_t depth, const char* open, const char* inner,
                   const char* close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += inner;
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(CanonicalJsonTest, TheDepthIsBounded) {
  const std::string deepest = Nested(kJsonDepthMax, "[", "1", "]");
  EXPECT_EQ(Canonical(deepest), deepest);
  EXPECT_EQ(Canonical(Nested(kJsonDepthMax + 1, "[", "1", "]")), "refused");
  const std::string objects = Nested(kJsonDepthMax, "{\"a\":", "1", "}");
  EXPECT_EQ(Canonical(objects), objects);
  EXPECT_EQ(Canonical(Nested(kJsonDepthMax + 1, "{\"a\":", "1", "}")),
            "refused");
  EXPECT_EQ(Canonical(std::string(1'000'000, '[')), "refused");
}

// The text may hold what must not get into a log.
TEST(CanonicalJsonTest, ARefusalQuotesNothing) {
  for (const char* text :
       {R"({"secret4711":1,"secret4711":2})", "secret4711", "\"secret4711",
        R"({"secret4711":9007199254740993})"}) {
    const auto refused = CanonicalJson(text);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(std::string(refused.status().message()),
                Not(HasSubstr("4711")));
    EXPECT_THAT(std::string(refused.status().message()),
                Not(HasSubstr("9007199254740993")));
  }
}

// --- Pointers ----------------------------------------------------------------

std::string Without(absl::string_view text,
                    const std::vector<const char*>& pointers) {
  std::vector<JsonPointer> parsed;
  for (const char* pointer : pointers) {
    const auto one = ParseJsonPointer(pointer);
    EXPECT_TRUE(one.ok()) << pointer;
    if (one.ok()) parsed.push_back(*one);
  }
  return CanonicalJsonWithout(text, parsed).value_or("refused");
}

TEST(CanonicalJsonWithoutTest, DropsWhatThePointersName) {
  constexpr char kText[] =
      R"({"a":{"b":1,"c":[10,{"d":2,"e":3},30]},"b":4,"":5,"x/y":6,"m~n":7})";
  EXPECT_EQ(Without(kText, {"/a"}), R"({"":5,"b":4,"m~n":7,"x/y":6})");
  EXPECT_EQ(Without(kText, {"/a/c", "/", "/x~1y", "/m~0n"}),
            R"({"a":{"b":1},"b":4})");
  EXPECT_EQ(Without(kText, {"/a/c/1/d", "/a/c/0", "/a/b", "/b", "/", "/x~1y"}),
            R"({"a":{"c":[{"e":3},30]},"m~n":7})");
  // Names nothing that is there.
  EXPECT_EQ(Without(kText, {"/c", "/a/c/3", "/a/c/01", "/a/c/-", "/a/b/0"}),
            Canonical(kText));
}

// RFC 6901, section 4: "~01" is "~1", not "/".
TEST(CanonicalJsonWithoutTest, UnescapesInOnePass) {
  EXPECT_EQ(Without(R"({"~1":1,"/":2})", {"/~01"}), R"({"/":2})");
}

TEST(CanonicalJsonWithoutTest, WhatIsDroppedMustBeSound) {
  EXPECT_EQ(Without(R"({"a":9007199254740993})", {"/a"}), "refused");
  EXPECT_EQ(Without(R"({"a":{"b":1,"b":1}})", {"/a"}), "refused");
  EXPECT_EQ(Without(R"({"a":1,"a":1})", {"/a"}), "refused");
}

TEST(ParseJsonPointerTest, RefusesWhatIsNone) {
  for (const char* text : {"", "a", "#/a", "/~", "/a~2", "/~~0", "/a/~b"}) {
    EXPECT_EQ(ParseJsonPointer(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace dedupe::client
