// Which client ids a principal's patterns take in.
#include "server/service/access.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace dedupe {
namespace {

Principal WithPatterns(std::vector<std::string> patterns) {
  Principal principal;
  principal.client_ids = std::move(patterns);
  return principal;
}

TEST(RoleTest, NameIsReadBack) {
  for (const Role role : {Role::kCaller, Role::kReader, Role::kAdmin}) {
    EXPECT_EQ(RoleOf(RoleName(role)), role);
  }
}

TEST(RoleTest, OtherNamesAreOfNoRoleThatIsKnown) {
  for (const char* name :
       {"", "Caller", "caller ", "owner", "unknown", "callerreader"}) {
    EXPECT_EQ(RoleOf(name), Role::kUnknown) << name;
  }
}

TEST(MayUseTest, NothingWithoutAPattern) {
  EXPECT_FALSE(MayUse(WithPatterns({}), "shop"));
  EXPECT_FALSE(MayUse(WithPatterns({}), ""));
}

TEST(MayUseTest, ExactPatternFitsOneIdAlone) {
  const Principal principal = WithPatterns({"shop"});
  EXPECT_TRUE(MayUse(principal, "shop"));
  for (const char* other : {"", "sho", "shop/", "shopper", "Shop", " shop"}) {
    EXPECT_FALSE(MayUse(principal, other)) << other;
  }
}

TEST(MayUseTest, PrefixFitsWhatBeginsWithIt) {
  const Principal principal = WithPatterns({"shop/*"});
  for (const char* fitting : {"shop/", "shop/a", "shop/a/b", "shop/*"}) {
    EXPECT_TRUE(MayUse(principal, fitting)) << fitting;
  }
  for (const char* other : {"shop", "shopper/a", "a/shop/", "SHOP/a"}) {
    EXPECT_FALSE(MayUse(principal, other)) << other;
  }
}

// Only the last character means more than itself.
TEST(MayUseTest, AsteriskWithinIsAnAsterisk) {
  const Principal principal = WithPatterns({"a*c", "b**"});
  EXPECT_TRUE(MayUse(principal, "a*c"));
  EXPECT_FALSE(MayUse(principal, "abc"));
  EXPECT_TRUE(MayUse(principal, "b*"));
  EXPECT_FALSE(MayUse(principal, "bc"));
}

TEST(MayUseTest, AsteriskAloneIsEverybody) {
  EXPECT_TRUE(MayUse(WithPatterns({"*"}), "anybody"));
}

TEST(MayUseTest, OneOfSeveralIsEnough) {
  const Principal principal = WithPatterns({"shop", "mail/*"});
  EXPECT_TRUE(MayUse(principal, "shop"));
  EXPECT_TRUE(MayUse(principal, "mail/eu"));
  EXPECT_FALSE(MayUse(principal, "shop/eu"));
}

}  // namespace
}  // namespace dedupe
