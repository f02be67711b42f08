// What is the same request, and what is another. The golden digests hold the
// schemes to what they were.
#include "dedupe/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/src/digest.h"
#include "tests/unit/client/golden_digests.h"

namespace dedupe::client {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

std::string Raw(absl::string_view operation,
                std::optional<absl::string_view> content_type,
                absl::string_view body) {
  return LowerHex(FingerprintRaw({operation, content_type, body}));
}

// In hex, or "refused".
std::string Json(absl::string_view body,
                 const std::vector<std::string>& excluded = {},
                 absl::string_view operation = kGoldenOperation) {
  const auto digest = FingerprintJson(operation, body, {excluded});
  if (digest.ok()) return LowerHex(*digest);
  EXPECT_EQ(digest.status().code(), absl::StatusCode::kInvalidArgument);
  return "refused";
}

// --- Golden ------------------------------------------------------------------

TEST(FingerprintRawTest, GivesTheGoldenDigests) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  EXPECT_EQ(Raw(kGoldenOperation, "application/json", R"({"amount":100})"),
            "6df83d54e74522612ad3863dc9ffe83f08d9db89a74ae868a0b6779c1c977d48");
  EXPECT_EQ(Raw(kGoldenOperation, std::nullopt, R"({"amount":100})"),
            "355f33a3943f7f53ebb56cabf18b6ee9a743159272907acdabaf00580ff4b25a");
  EXPECT_EQ(Raw(kGoldenOperation, "", R"({"amount":100})"),
            "d099de81c0c97045503d4571167fda88cd3811939a370ff5e61363a96249c2e5");
  EXPECT_EQ(Raw(kGoldenOperation, "application/json", ""),
            "8f31dd1ecd057b40d8b7b450117a8953c99b2e8263c4863371ca96eaf207934b");
  EXPECT_EQ(Raw(kGoldenOperation, "application/octet-stream", every_byte),
            "d1563a85c8506599ecfdb1634f888932fca8da2f44c5d4723b6386fbbe39d566");
  EXPECT_EQ(Raw("", std::nullopt, ""),
            "5bfc54421f22b8fab9ff635e53cef41a0195803d9731daf195f641d4781f1a12");
}

TEST(FingerprintJsonTest, GivesTheGoldenDigests) {
  for (const GoldenDigest& golden : kGoldenJsonDigests) {
    EXPECT_EQ(Json(golden.body), golden.digest) << golden.body;
  }
}

TEST(FingerprintJsonTest, GivesTheGoldenDigestsWithExclusions) {
  const std::vector<std::string> excluded = {"/trace_id", "/meta/sent_at"};
  EXPECT_EQ(Json(R"({"amount":100,"trace_id":"t-1"})", excluded),
            "0c4e6b215d43810366734e47f27eab7fd063b81a95bdc4dcf4facc2f7136e258");
  EXPECT_EQ(
      Json(R"({"meta":{"sent_at":17,"source":"web"},"amount":100})", excluded),
      "16f8991f1ec69a71b1e1ae68cbb0f01e78a5cd6ae773e1746cc38eb50084129f");
  EXPECT_EQ(Json(R"({"amount":100,"meta":{"source":"web"}})"),
            "26be1483436e06721d86768e229cd8407ebc9009fa74eb1f3aa91e7820eebc6f");
}

// --- Raw ---------------------------------------------------------------------

TEST(FingerprintRawTest, IsTheSameForTheSameBytes) {
  EXPECT_EQ(Raw("POST /a", "text/plain", "b"),
            Raw("POST /a", "text/plain", "b"));
  EXPECT_THAT(FingerprintRaw({}), SizeIs(32));
}

TEST(FingerprintRawTest, EachPartAndBoundaryCounts) {
  const std::set<std::string> digests = {
      Raw("ab", "c", "d"),
      Raw("a", "bc", "d"),
      Raw("ab", "", "cd"),
      Raw("ab", std::nullopt, "cd"),
      Raw("abcd", std::nullopt, ""),
      Raw("abcd", "", ""),
      Raw("", "abcd", ""),
      Raw("", "", "abcd"),
      Raw("ab", "c", "D"),
      Raw("ab", "c", absl::string_view("d\0", 2)),
      Raw("ab", "c", " d"),
  };
  EXPECT_THAT(digests, SizeIs(11));
}

// An absent part is left out, which must not look like another request whose
// parts hold a length in front.
TEST(FingerprintRawTest, AbsentContentTypeIsNoForgedBody) {
  const std::string forged = std::string(
      "\0\0\0\0\0\0\0\x01"
      "b",
      9);
  EXPECT_NE(Raw("a", std::nullopt, forged), Raw("a", "", "b"));
  EXPECT_NE(Raw("a", "", "b"), Raw("a", std::nullopt, "b"));
}

TEST(FingerprintRawTest, TellsTheReorderedCopyApart) {
  EXPECT_NE(Raw("a", std::nullopt, R"({"a":1,"b":2})"),
            Raw("a", std::nullopt, R"({"b":2,"a":1})"));
}

// --- JSON --------------------------------------------------------------------

TEST(FingerprintJsonTest, MemberOrderSpaceAndSpellingDoNotCount) {
  const std::string digest = Json(R"({"a":1,"b":{"x":1,"y":"\u00e9"}})");
  EXPECT_EQ(Json(R"({"b":{"y":"\u00e9","x":1},"a":1})"), digest);
  EXPECT_EQ(Json(" {\r\n\t\"a\" : 1 , \"b\":{ \"x\":1,\"y\":\"\\u00E9\"} } "),
            digest);
  EXPECT_EQ(Json("{\"\\u0061\":1.0,\"b\":{\"x\":1e0,\"y\":\"\u00e9\"}}"),
            digest);
}

TEST(FingerprintJsonTest, WhatIsSaidCounts) {
  const std::set<std::string> digests = {
      Json(R"({"a":[1,2]})"),
      Json(R"({"a":[2,1]})"),
      Json(R"({"a":[1,2,null]})"),
      Json(R"({"a":[[1],2]})"),
      Json(R"({"a":["1",2]})"),
      Json(R"({"A":[1,2]})"),
      Json(R"({"a":null})"),
      Json(R"({"a":""})"),
      Json(R"({"a":[]})"),
      Json(R"({"a":{}})"),
      Json(R"({"a":false})"),
      Json(R"({"a":0})"),
      Json(R"({"a":1})"),
      Json(R"({"a":-1})"),
      Json(R"({"a":"\u00e9"})"),
      Json(R"({"a":"e\u0301"})"),
      Json("{}"),
      Json(R"({"a":[1,2]})", {}, "POST /v1/refunds"),
  };
  EXPECT_THAT(digests, SizeIs(18));
  EXPECT_FALSE(digests.contains("refused"));
}

// The same operation and bytes, which are canonical as they are.
TEST(FingerprintJsonTest, NeverSharesADigestWithRaw) {
  constexpr char kBody[] = R"({"a":1})";
  EXPECT_NE(Json(kBody), Raw(kGoldenOperation, std::nullopt, kBody));
  EXPECT_NE(Json(kBody), Raw(kGoldenOperation, "", kBody));
  EXPECT_NE(Json(kBody), Raw(kGoldenOperation, "application/json", kBody));
}

// 2^53 + 1 is 2^53 as a double.
TEST(FingerprintJsonTest, BigIntegersNeverLookAlike) {
  EXPECT_EQ(Json(R"({"id":9007199254740993})"), "refused");
  EXPECT_NE(Json(R"({"id":"9007199254740993"})"),
            Json(R"({"id":"9007199254740992"})"));
}

TEST(FingerprintJsonTest, RefusesWhatCanonicalJsonRefuses) {
  for (const char* body : {"", "{", R"({"a":1,"a":1})", "\"\xff\"", "1e999"}) {
    EXPECT_EQ(Json(body), "refused") << body;
  }
}

// --- Exclusions --------------------------------------------------------------

TEST(FingerprintJsonTest, ExcludedMembersDoNotCountOthersDo) {
  const std::vector<std::string> excluded = {"/trace_id"};
  const std::string digest = Json(R"({"amount":1,"trace_id":"x"})", excluded);
  EXPECT_EQ(Json(R"({"trace_id":{"a":[1]},"amount":1})", excluded), digest);
  EXPECT_EQ(Json(R"({"amount":1})", excluded), digest);
  EXPECT_NE(Json(R"({"amount":2,"trace_id":"x"})", excluded), digest);
  EXPECT_NE(Json(R"({"amount":1,"trace_ID":"x"})", excluded), digest);
  EXPECT_NE(Json(R"({"amount":1,"sub":{"trace_id":"x"}})", excluded), digest);
}

TEST(FingerprintJsonTest, TheListCountsItsOrderDoesNot) {
  constexpr char kBody[] = R"({"amount":1})";
  const std::string digest = Json(kBody, {"/a", "/b"});
  EXPECT_EQ(Json(kBody, {"/b", "/a"}), digest);
  EXPECT_EQ(Json(kBody, {"/b", "/a", "/b"}), digest);
  EXPECT_NE(Json(kBody, {"/a"}), digest);
  EXPECT_NE(Json(kBody, {"/a/b"}), digest);
  EXPECT_NE(Json(kBody), digest);
}

TEST(FingerprintJsonTest, RefusesWhatIsNoList) {
  EXPECT_EQ(Json("{}", {""}), "refused");
  EXPECT_EQ(Json("{}", {"trace_id"}), "refused");
  EXPECT_EQ(Json("{}", {"/a", "/b~"}), "refused");
  EXPECT_EQ(Json("{}", std::vector<std::string>(65, "/a")), "refused");
  EXPECT_NE(Json("{}", std::vector<std::string>(64, "/a")), "refused");
}

// --- Threads -----------------------------------------------------------------

TEST(FingerprintTest, GivesTheGoldenDigestsInManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  std::vector<int> wrong(kThreads, 0);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int& count : wrong) {
      threads.emplace_back([&count] {
        for (int i = 0; i < kRounds; ++i) {
          for (const GoldenDigest& golden : kGoldenJsonDigests) {
            count += Json(golden.body) == golden.digest ? 0 : 1;
          }
        }
      });
    }
  }
  EXPECT_THAT(wrong, Each(0));
}

// --- No protobuf -------------------------------------------------------------

struct Message {
  std::string SerializeAsString() const;
};

// Messages serialise differently from build to build, so none must get in.
TEST(FingerprintTest, TakesNoMessage) {
  EXPECT_FALSE((std::is_invocable_v<decltype(FingerprintRaw), Message>));
  EXPECT_FALSE(
      (std::is_invocable_v<decltype(FingerprintJson), absl::string_view,
                           Message, JsonFingerprintOptions>));
  EXPECT_FALSE((std::is_constructible_v<RequestParts, absl::string_view,
                                        absl::string_view, Message>));
}

}  // namespace
}  // namespace dedupe::client
