// Tokens: made so that they cannot be guessed, read so that only one text is
// the token.
#include "server/service/token.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dedupe {
namespace {

// Known beforehand: sha256sum of 64 zeros as text.
constexpr char kId[] = "0123456789abcdef";
constexpr char kSha256OfZeros[] =
    "60e05bd1b195af2f94112fa7197a5c88289058840ce7c6df9693756bc6250f55";

std::string HeaderOf(const std::string& id, const std::string& secret) {
  return absl::StrCat("Bearer dedupe_", id, ".", secret);
}

TEST(TokenTest, WhatIsMintedIsReadBack) {
  const auto token = MintToken();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_TRUE(absl::StartsWith(token->text, "dedupe_"));
  const auto presented = ParseBearer("Bearer " + token->text);
  ASSERT_TRUE(presented.has_value());
  EXPECT_EQ(presented->id, token->id);
  EXPECT_EQ(presented->sha256, token->sha256);
  EXPECT_EQ(token->sha256.size(), 32u);
}

TEST(TokenTest, DigestIsSha256OfTheSecretsText) {
  const auto presented = ParseBearer(HeaderOf(kId, std::string(64, '0')));
  ASSERT_TRUE(presented.has_value());
  EXPECT_EQ(absl::BytesToHexString(presented->sha256), kSha256OfZeros);
}

TEST(TokenTest, NoTwoAreAlike) {
  std::set<std::string> texts;
  std::set<std::string> ids;
  for (int i = 0; i < 10'000; ++i) {
    const auto token = MintToken();
    ASSERT_TRUE(token.ok()) << token.status();
    texts.insert(token->text);
    ids.insert(token->id);
  }
  EXPECT_EQ(texts.size(), 10'000u);
  EXPECT_EQ(ids.size(), 10'000u);
}

TEST(TokenTest, SchemeIsReadInAnyCase) {
  const std::string rest = HeaderOf(kId, std::string(64, 'a')).substr(6);
  for (const char* scheme : {"Bearer", "bearer", "BEARER"}) {
    EXPECT_TRUE(ParseBearer(scheme + rest).has_value()) << scheme;
  }
}

// Each digit counts: there is no second text with the same digest.
TEST(TokenTest, EveryDigitOfTheSecretChangesTheDigest) {
  const std::string secret(64, '0');
  const auto whole = ParseBearer(HeaderOf(kId, secret));
  ASSERT_TRUE(whole.has_value());
  for (size_t i = 0; i < secret.size(); ++i) {
    std::string other = secret;
    other[i] = '1';
    const auto presented = ParseBearer(HeaderOf(kId, other));
    ASSERT_TRUE(presented.has_value());
    EXPECT_FALSE(SameDigest(presented->sha256, whole->sha256)) << i;
  }
}

TEST(TokenTest, AnythingElseIsNoToken) {
  const std::string secret(64, '0');
  const std::string good = HeaderOf(kId, secret);
  for (const std::string& header :
       {std::string(),
        std::string("Bearer"),
        std::string("Bearer "),
        good.substr(7),
        "Basic " + good.substr(7),
        " " + good,
        good + " ",
        good + "\n",
        good + std::string(1, '\0'),
        "Bearer  " + good.substr(7),
        good.substr(0, good.size() - 1),
        good + "0",
        HeaderOf(kId, std::string(63, '0') + "A"),
        HeaderOf(kId, std::string(63, '0') + "g"),
        HeaderOf("0123456789ABCDEF", secret),
        HeaderOf("0123456789abcde", secret),
        absl::StrCat("Bearer Dedupe_", kId, ".", secret),
        absl::StrCat("Bearer dedupe_", kId, ":", secret),
        absl::StrCat("Bearer ", kId, ".", secret),
        std::string(100'000, 'a')}) {
    EXPECT_FALSE(ParseBearer(header).has_value()) << header.substr(0, 120);
  }
}

TEST(TokenTest, DigestsAreComparedWhole) {
  EXPECT_TRUE(SameDigest("abc", "abc"));
  EXPECT_FALSE(SameDigest("abc", "abd"));
  EXPECT_FALSE(SameDigest("abc", "ab"));
  EXPECT_FALSE(SameDigest("abc", ""));
}

}  // namespace
}  // namespace dedupe
