// Downstream keys are the same in every process and version: the golden ones
// were computed with another language's HMAC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "dedupe/key.h"

namespace dedupe::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kSecret[] = "0123456789abcdef";

std::string Downstream(const std::string& secret, const std::string& client_id,
                       const std::string& key, const std::string& label) {
  const auto made = DownstreamKey(secret, client_id, key, label);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value_or("");
}

// A changed digest would charge a second time whoever is taken over in the
// middle of a roll-out.
TEST(DownstreamKeyTest, GivesTheGoldenKeys) {
  EXPECT_EQ(Downstream(kSecret, "acme", "order-42", "charge"),
            "1ea3893b-f72c-86d4-90d3-d0647b9ad804");
  EXPECT_EQ(Downstream(kSecret, "acme", "order-42", "mail receipt"),
            "dcfe2c1d-94e6-8ccc-85a7-59d66dc50f48");
  EXPECT_EQ(Downstream(std::string(131, 'k'), "acme", "cl\u00e9-42", ""),
            "87f4b55c-6f2f-80e1-817e-44132c817b0b");
}

TEST(DownstreamKeyTest, IsAUuid8) {
  const std::regex uuid8(
      "[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  for (int i = 0; i < 100; ++i) {
    const std::string key =
        Downstream(kSecret, "acme", std::to_string(i), "charge");
    EXPECT_TRUE(std::regex_match(key, uuid8)) << key;
  }
}

TEST(DownstreamKeyTest, EachArgumentAndBoundaryCounts) {
  const std::set<std::string> keys = {
      Downstream(kSecret, "acme", "order-42", "charge"),
      Downstream("0123456789abcdeF", "acme", "order-42", "charge"),
      Downstream(kSecret, "acm", "eorder-42", "charge"),
      Downstream(kSecret, "acme", "order-42c", "harge"),
      Downstream(kSecret, "acme", "order-42charge", ""),
      Downstream(kSecret, "acmeorder-42charge", "", ""),
      Downstream(kSecret, "", "acmeorder-42", "charge"),
      Downstream(kSecret, std::string("acme\0", 5), "order-42", "charge"),
  };
  EXPECT_THAT(keys, SizeIs(8));
}

TEST(DownstreamKeyTest, RefusesAShortSecretWithoutShowingIt) {
  const auto refused =
      DownstreamKey("fifteen-bytes-x", "acme", "order-42", "charge");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              Not(HasSubstr("fifteen-bytes-x")));
  EXPECT_FALSE(DownstreamKey("", "acme", "order-42", "charge").ok());
}

}  // namespace
}  // namespace dedupe::client
