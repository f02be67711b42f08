// SHA-256 and HMAC against the published vectors (FIPS 180-4, RFC 4231), and
// that no other digest is used.
#include "client/src/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace dedupe::client {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Sha256Test, GivesThePublishedDigests) {
  EXPECT_EQ(LowerHex(Sha256("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(LowerHex(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(LowerHex(Sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HmacSha256Test, GivesThePublishedDigests) {
  EXPECT_EQ(LowerHex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(LowerHex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  // A secret longer than a block.
  EXPECT_EQ(LowerHex(HmacSha256(
                std::string(131, '\xaa'),
                "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256Test, TakesAnEmptySecretForASecret) {
  EXPECT_EQ(LowerHex(HmacSha256("", "")),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(LowerHexTest, WritesTwoDigitsForEachByte) {
  EXPECT_EQ(LowerHex(std::string("\0\x09\xab\xff", 4)), "0009abff");
}

TEST(PartWriterTest, WritesTheLengthInFrontInEightBytes) {
  PartWriter parts;
  parts.Add("ab").Add("").Add(std::string(258, 'x'));
  EXPECT_EQ(parts.text(), std::string("\0\0\0\0\0\0\0\x02"
                                      "ab"
                                      "\0\0\0\0\0\0\0\0"
                                      "\0\0\0\0\0\0\x01\x02",
                                      26) +
                              std::string(258, 'x'));
}

TEST(PartWriterTest, OtherBoundariesAreAnotherText) {
  PartWriter one;
  PartWriter other;
  one.Add("ab").Add("c");
  other.Add("a").Add("bc");
  EXPECT_NE(one.text(), other.text());
}

// Systems under FIPS policy have neither MD5 nor SHA-1.
TEST(DigestSourcesTest, NameNoOtherDigest) {
  const std::regex other_digest("MD[245]|SHA-?_?1\\b|RIPEMD|sha512",
                                std::regex::icase);
  std::vector<std::string> read;
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           testing::SourceDirectory() + "/client/src")) {
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    read.push_back(entry.path());
    // A header's name, not a digest.
    const std::string code =
        std::regex_replace(text, std::regex("Content-MD5"), "");
    if (std::regex_search(code, other_digest)) found.push_back(entry.path());
  }
  EXPECT_THAT(found, IsEmpty());
  EXPECT_THAT(read, SizeIs(::testing::Ge(6U)))
      << "is DEDUPE_SOURCE_DIR the root of the sources?";
}

}  // namespace
}  // namespace dedupe::client
