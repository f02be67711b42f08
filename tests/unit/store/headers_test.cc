// Headers as the record keeps them: what is written is read back byte for byte,
// and what is damaged is refused rather than guessed at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "server/service/limits.h"
#include "server/service/reason.h"
#include "server/store/decode.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::dedupe::testing::IsOk;
using ::dedupe::testing::IsRefusal;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Headers = std::vector<Header>;

TEST(EncodeHeadersTest, IsAnArrayOfPairs) {
  EXPECT_EQ(EncodeHeaders({}), "[]");
  EXPECT_EQ(EncodeHeaders({{"a", "1"}, {"b", ""}}), R"([["a","1"],["b",""]])");
}

// Two texts that look like an object's member are a pair all the same.
TEST(EncodeHeadersTest, OneHeaderIsStillAnArrayOfPairs) {
  EXPECT_EQ(EncodeHeaders({{"a", "1"}}), R"([["a","1"]])");
}

TEST(HeadersTest, OrderAndRepetitionAreKept) {
  const Headers headers = {{"set-x", "2"}, {"a", "1"}, {"set-x", "1"}};
  const auto decoded = DecodeHeaders(EncodeHeaders(headers));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, headers);
}

TEST(HeadersTest, AwkwardTextIsKept) {
  const Headers headers = {{"\"", "\\"},
                           {"a/b", "\xc3\xa9 e\xcc\x81"},
                           {"\xf0\x9f\x92\xb3", "</script>'\"; --"},
                           {"\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"},
                           {" ", "  two  "},
                           {"\\u0041", "\\n"}};
  const auto decoded = DecodeHeaders(EncodeHeaders(headers));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, headers);
}

TEST(HeadersTest, TheLargestAllowedAreKept) {
  const Headers headers(
      kHeadersMax, {"n", std::string(kHeadersBytesMax / kHeadersMax - 1, '"')});
  const auto decoded = DecodeHeaders(EncodeHeaders(headers));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(*decoded, headers);
}

// jsonb prints a space after each comma, and escapes as it likes.
TEST(DecodeHeadersTest, ReadsWhatPostgresPrints) {
  const auto decoded =
      DecodeHeaders("[[\"a\", \"1\"], [\"\\u00e9\", \"\\\"\\/\"]]");
  ASSERT_THAT(decoded, IsOk());
  EXPECT_THAT(*decoded,
              ElementsAre(Header{"a", "1"}, Header{"\xc3\xa9", "\"/"}));
}

TEST(DecodeHeadersTest, NoHeadersAreAnEmptyArray) {
  const auto decoded = DecodeHeaders("[]");
  ASSERT_THAT(decoded, IsOk());
  EXPECT_THAT(*decoded, IsEmpty());
}

class DamagedHeadersTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedHeadersTest, IsRefused) {
  EXPECT_THAT(DecodeHeaders(GetParam()), IsRefusal(Reason::kRecordDamaged));
}

INSTANTIATE_TEST_SUITE_P(
    NotJson, DamagedHeadersTest,
    ::testing::Values("", " ", "[", "]", "[[\"a\",\"1\"]", "[[\"a\",\"1\"],]",
                      "[[\"a\" \"1\"]]", "[[\"a\",\"1\"]] x", "[['a','1']]",
                      "[[\"a\",\"\xff\"]]", "[[\"a\",\"\\ud800\"]]",
                      "[[\"a\",\"\n\"]]", "nul", "\xef\xbb\xbf"));

INSTANTIATE_TEST_SUITE_P(
    NotHeaders, DamagedHeadersTest,
    ::testing::Values("null", "true", "1", "\"a\"", "{}", "{\"a\":\"1\"}",
                      "[null]", "[1]", "[\"a\",\"1\"]", "[{}]",
                      "[{\"a\":\"1\"}]", "[[]]", "[[\"a\"]]",
                      "[[\"a\",\"1\",\"2\"]]", "[[\"a\",1]]", "[[1,\"a\"]]",
                      "[[\"a\",null]]", "[[null,\"a\"]]", "[[\"a\",[\"1\"]]]",
                      "[[\"a\",{\"b\":\"1\"}]]", "[[\"a\",\"1\"],[\"b\"]]"));

// Neither parsing nor throwing away may use the stack for each level.
TEST(DecodeHeadersTest, AnyDepthIsRefusedInPeace) {
  constexpr size_t kDepth = 200'000;
  std::string json(kDepth, '[');
  json.append(kDepth, ']');
  EXPECT_THAT(DecodeHeaders(json), IsRefusal(Reason::kRecordDamaged));
  EXPECT_THAT(DecodeHeaders(std::string(kDepth, '[')),
              IsRefusal(Reason::kRecordDamaged));
}

// One byte changed anywhere: refused or other headers, and nothing worse.
TEST(DecodeHeadersTest, NoByteChangedDoesHarm) {
  const std::string json = EncodeHeaders({{"a", "1"}, {"name", "\"value\""}});
  for (size_t position = 0; position < json.size(); ++position) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged = json;
      damaged[position] = static_cast<char>(byte);
      const auto decoded = DecodeHeaders(damaged);
      if (!decoded.ok()) {
        EXPECT_THAT(decoded, IsRefusal(Reason::kRecordDamaged));
      } else {
        EXPECT_LE(decoded->size(), 3u);
      }
    }
  }
}

TEST(DecodeHeadersTest, EveryBeginningOfAnArrayIsRefused) {
  const std::string json = EncodeHeaders({{"a", "1"}, {"name", "value"}});
  for (size_t size = 0; size < json.size(); ++size) {
    EXPECT_THAT(DecodeHeaders(absl::string_view(json).substr(0, size)),
                IsRefusal(Reason::kRecordDamaged))
        << size;
  }
}

}  // namespace
}  // namespace dedupe
