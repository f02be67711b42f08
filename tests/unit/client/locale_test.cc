// The process's locale changes no digest: JSON has a decimal point everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "client/src/canonical_json.h"
#include "client/src/digest.h"
#include "dedupe/fingerprint.h"
#include "tests/support/process.h"
#include "tests/unit/client/golden_digests.h"

namespace dedupe::client {
namespace {

constexpr char kLocale[] = "de_DE.UTF-8";

// Under a locale with a decimal comma, which is compiled where the system has
// only its source.
class DecimalCommaTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::setlocale(LC_ALL, kLocale) != nullptr) return;
    if (!testing::HasProgram("localedef")) return;
    const std::string& folder = testing::ScratchDirectory();
    testing::RunProcess(
        {"localedef", "-i", "de_DE", "-f", "UTF-8", folder + "/" + kLocale});
    // Where the C library looks, from the next call on.
    setenv("LOCPATH", folder.c_str(), 1);
  }
  static void TearDownTestSuite() { unsetenv("LOCPATH"); }

  void SetUp() override {
    if (std::setlocale(LC_ALL, kLocale) == nullptr) {
      GTEST_SKIP() << "NOT TESTED: digests under a locale with a decimal "
                      "comma. Neither the locale "
                   << kLocale << " nor its source is installed; apt-get "
                   << "install locales";
    }
    std::array<char, 8> text;
    std::snprintf(text.data(), text.size(), "%.1f", 1.5);
    ASSERT_STREQ(text.data(), "1,5");
  }
  void TearDown() override { std::setlocale(LC_ALL, "C"); }
};

TEST_F(DecimalCommaTest, GivesTheGoldenDigests) {
  for (const GoldenDigest& golden : kGoldenJsonDigests) {
    const auto digest = FingerprintJson(kGoldenOperation, golden.body);
    ASSERT_TRUE(digest.ok()) << golden.body << ": " << digest.status();
    EXPECT_EQ(LowerHex(*digest), golden.digest) << golden.body;
  }
}

TEST_F(DecimalCommaTest, FractionsAreReadAndWrittenWithAPoint) {
  EXPECT_EQ(CanonicalJson("[1.25,1.5e3,-0.125,1E-7,12345.678901]").value_or(""),
            "[1.25,1500,-0.125,1e-7,12345.678901]");
  EXPECT_FALSE(CanonicalJson("1,5").ok());
}

TEST_F(DecimalCommaTest, BoundsOfNumbersAreTheSame) {
  EXPECT_FALSE(CanonicalJson("9007199254740993.0").ok());
  EXPECT_FALSE(CanonicalJson("1.5e999").ok());
  EXPECT_FALSE(CanonicalJson("1.5e-999").ok());
}

}  // namespace
}  // namespace dedupe::client
