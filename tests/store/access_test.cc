// Who may touch what: from the administrator's calls to what servers read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/service/reason.h"
#include "tests/store/access_database.h"
#include "tests/support/test_clock.h"

namespace dedupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kExists = absl::StatusCode::kAlreadyExists;
constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

class AccessTest : public AccessDatabase {
 protected:
  AccessTest() : clock_(url_, kStart) {}

  std::vector<TokenListing> Tokens(
      const std::optional<std::string>& principal = std::nullopt) {
    const auto listings = admin_->ListTokens(principal);
    EXPECT_TRUE(listings.ok()) << listings.status();
    return listings.ok() ? *listings : std::vector<TokenListing>();
  }

  absl::StatusCode CreateCode(const std::string& principal, int number) {
    return admin_->CreateToken(principal, MakeToken(number), std::nullopt)
        .status()
        .code();
  }

  TestClock clock_;
};

TEST_F(AccessTest, BeginsEmpty) {
  const AccessAnswer answer = Load();
  EXPECT_EQ(answer.version, 1);
  EXPECT_EQ(answer.decided_at, kStart);
  EXPECT_EQ(answer.list, AccessList());
}

TEST_F(AccessTest, ServersReadWhatWasPut) {
  Principal shop = MakePrincipal("shop \"\u00e9\"");
  shop.role = Role::kAdmin;
  shop.client_ids = {"shop/*", "a,\\\"{}\u00e9*", "*"};
  shop.quota = {.calls_in_flight_max = 1,
                .calls_per_second_max = 1'000'000'000,
                .live_keys_max = 0,
                .stored_bytes_max = 1'000'000'000'000'000};
  Put(shop, {"uri:spiffe://prod/shop", "dns:shop.internal"});
  Put(MakePrincipal("mail"));
  Create("mail", 7);
  EXPECT_EQ(
      admin_->CreateToken(shop.name, MakeToken(0xfe), absl::Hours(1)).value(),
      kStart + absl::Hours(1));

  const AccessList list = List();
  EXPECT_THAT(list.principals, ElementsAre(MakePrincipal("mail"), shop));
  EXPECT_THAT(list.tokens,
              ElementsAre(Token{MakeToken(7).id, MakeToken(7).sha256, "mail",
                                std::nullopt},
                          Token{MakeToken(0xfe).id, MakeToken(0xfe).sha256,
                                shop.name, kStart + absl::Hours(1)}));
  EXPECT_THAT(
      list.certificate_names,
      ElementsAre(CertificateName{"dns:shop.internal", shop.name},
                  CertificateName{"uri:spiffe://prod/shop", shop.name}));
}

TEST_F(AccessTest, PuttingReplacesAllButTokens) {
  Principal shop = MakePrincipal("shop");
  shop.quota.live_keys_max = 5;
  EXPECT_EQ(*admin_->PutPrincipal(shop, {"dns:a"}),
            PutPrincipalOutcome::kCreated);
  Create("shop", 1);
  clock_.Advance(absl::Hours(1));
  Principal other = MakePrincipal("shop");
  other.role = Role::kReader;
  other.client_ids = {"x"};
  EXPECT_EQ(*admin_->PutPrincipal(other, {"dns:b", "dns:b"}),
            PutPrincipalOutcome::kReplaced);

  const AccessList list = List();
  EXPECT_THAT(list.principals, ElementsAre(other));
  EXPECT_THAT(list.tokens, SizeIs(1));
  EXPECT_THAT(list.certificate_names,
              ElementsAre(CertificateName{"dns:b", "shop"}));
  const auto listed = admin_->ListPrincipals();
  ASSERT_THAT(listed.value(), SizeIs(1));
  EXPECT_EQ(listed->front().principal, other);
  EXPECT_THAT(listed->front().certificate_names, ElementsAre("dns:b"));
  EXPECT_EQ(listed->front().created_at, kStart);
}

TEST_F(AccessTest, CertificateNameHasOnePrincipal) {
  Put(MakePrincipal("shop"), {"dns:a"});
  const int64_t version = Version();
  const auto refused =
      admin_->PutPrincipal(MakePrincipal("mail"), {"dns:b", "dns:a"});
  EXPECT_EQ(refused.status().code(), kExists);
  // Nothing of it stays.
  EXPECT_THAT(List().principals, ElementsAre(MakePrincipal("shop")));
  EXPECT_THAT(List().certificate_names, SizeIs(1));
  EXPECT_EQ(Version(), version);
}

TEST_F(AccessTest, RemovedPrincipalTakesItsTokensAlong) {
  Put(MakePrincipal("shop"), {"dns:a"});
  Put(MakePrincipal("mail"), {"dns:b"});
  Create("shop", 1);
  Create("mail", 2);
  EXPECT_TRUE(admin_->RemovePrincipal("shop").ok());
  const AccessList list = List();
  EXPECT_THAT(list.principals, ElementsAre(MakePrincipal("mail")));
  ASSERT_THAT(list.tokens, SizeIs(1));
  EXPECT_EQ(list.tokens[0].principal, "mail");
  EXPECT_THAT(list.certificate_names,
              ElementsAre(CertificateName{"dns:b", "mail"}));
  EXPECT_EQ(admin_->RemovePrincipal("shop").code(), kNotFound);
}

TEST_F(AccessTest, RevokedTokenIsGoneAtOnce) {
  Put(MakePrincipal("shop"));
  Create("shop", 1);
  Create("shop", 2);
  const int64_t known = Version();
  EXPECT_TRUE(admin_->RevokeToken(MakeToken(1).id).ok());
  const AccessAnswer answer = Load({.known_version = known});
  ASSERT_TRUE(answer.list.has_value());
  ASSERT_THAT(answer.list->tokens, SizeIs(1));
  EXPECT_EQ(answer.list->tokens[0].id, MakeToken(2).id);
  EXPECT_EQ(admin_->RevokeToken(MakeToken(1).id).code(), kRefused);
  EXPECT_EQ(admin_->RevokeToken(MakeToken(3).id).code(), kNotFound);
}

// Every change, and nothing else.
TEST_F(AccessTest, VersionGrowsWithChangesOnly) {
  int64_t version = Version();
  const auto grows = [&] {
    const int64_t before = version;
    version = Version();
    return version > before;
  };
  Put(MakePrincipal("shop"), {"dns:a"});
  EXPECT_TRUE(grows());
  Put(MakePrincipal("shop"));
  EXPECT_TRUE(grows());
  Create("shop", 1);
  EXPECT_TRUE(grows());
  Create("shop", 2);
  EXPECT_TRUE(grows());

  EXPECT_EQ(CreateCode("shop", 3), kRefused);
  EXPECT_EQ(CreateCode("mail", 3), kNotFound);
  EXPECT_EQ(admin_->RemovePrincipal("mail").code(), kNotFound);
  EXPECT_EQ(admin_->RevokeToken(MakeToken(3).id).code(), kNotFound);
  Tokens();
  EXPECT_TRUE(admin_->ListPrincipals().ok());
  Load({.known_version = version, .used_token_ids = {MakeToken(1).id}});
  EXPECT_FALSE(grows());

  EXPECT_TRUE(admin_->RevokeToken(MakeToken(1).id).ok());
  EXPECT_TRUE(grows());
  EXPECT_EQ(admin_->RevokeToken(MakeToken(1).id).code(), kRefused);
  EXPECT_FALSE(grows());
  EXPECT_TRUE(admin_->RemovePrincipal("shop").ok());
  EXPECT_TRUE(grows());
}

TEST_F(AccessTest, KnownVersionSparesTheList) {
  Put(MakePrincipal("shop"));
  const int64_t version = Version();
  EXPECT_EQ(Load({.known_version = version}).list, std::nullopt);
  EXPECT_EQ(Load({.known_version = version}).version, version);
  // Of a database that was set back since.
  EXPECT_TRUE(Load({.known_version = version + 1}).list.has_value());
}

// A database that is set back and changed anew, as after a failover to a
// standby that lacked the last change, must not come to the same version.
TEST_F(AccessTest, VersionIsNotUsedAgainForAnotherContent) {
  Put(MakePrincipal("shop"));
  const int64_t lost = Version();
  session_.Run(
      "TRUNCATE dedupe.principal CASCADE;"
      " UPDATE dedupe.access_version SET version = 1");
  clock_.Advance(absl::Seconds(1));
  Put(MakePrincipal("mail"));
  EXPECT_NE(Version(), lost);
  // Nor does a clock that was set back make it smaller.
  const int64_t version = Version();
  clock_.Set(kStart - absl::Hours(1));
  Put(MakePrincipal("mail"));
  EXPECT_EQ(Version(), version + 1);
}

TEST_F(AccessTest, TwoLiveTokensAreEnough) {
  Put(MakePrincipal("shop"));
  EXPECT_TRUE(admin_->CreateToken("shop", MakeToken(1), absl::Hours(1)).ok());
  Create("shop", 2);
  EXPECT_EQ(CreateCode("shop", 3), kRefused);
  // One that has expired counts no more, nor does one that was revoked.
  clock_.Advance(absl::Hours(1));
  Create("shop", 3);
  EXPECT_EQ(CreateCode("shop", 4), kRefused);
  EXPECT_TRUE(admin_->RevokeToken(MakeToken(2).id).ok());
  Create("shop", 4);
  EXPECT_EQ(CreateCode("shop", 5), kRefused);
  // Each principal has two of its own, and no id is used twice.
  Put(MakePrincipal("mail"));
  EXPECT_EQ(CreateCode("mail", 4), kExists);
  Create("mail", 6);
}

TEST_F(AccessTest, TwoOfManyAtOnceGetAToken) {
  constexpr int kRounds = 5;
  constexpr int kAtOnce = 8;
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = absl::StrCat("p", round);
    Put(MakePrincipal(name));
    std::vector<absl::StatusCode> codes(kAtOnce);
    std::vector<std::thread> threads;
    threads.reserve(kAtOnce);
    for (int i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([&, i] {
        codes[static_cast<size_t>(i)] =
            OpenAdmin(url_)
                ->CreateToken(name, MakeToken(round * kAtOnce + i),
                              std::nullopt)
                .status()
                .code();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::count(codes.begin(), codes.end(), absl::StatusCode::kOk), 2);
    EXPECT_EQ(std::count(codes.begin(), codes.end(), kRefused), kAtOnce - 2);
    EXPECT_THAT(Tokens(name), SizeIs(2));
  }
}

TEST_F(AccessTest, ListingTellsTheState) {
  Put(MakePrincipal("shop"));
  Put(MakePrincipal("mail"));
  EXPECT_TRUE(admin_->CreateToken("shop", MakeToken(1), absl::Minutes(1)).ok());
  clock_.Advance(absl::Minutes(1));
  Create("shop", 2);
  Create("mail", 3);
  EXPECT_TRUE(admin_->RevokeToken(MakeToken(2).id).ok());

  const auto all = Tokens();
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_EQ(all[0].principal, "mail");
  EXPECT_EQ(all[0].state, TokenState::kLive);
  EXPECT_EQ(all[0].created_at, kStart + absl::Minutes(1));
  EXPECT_EQ(all[0].expires_at, std::nullopt);
  const auto shop = Tokens("shop");
  ASSERT_THAT(shop, SizeIs(2));
  EXPECT_EQ(shop[0].id, MakeToken(1).id);
  EXPECT_EQ(shop[0].state, TokenState::kExpired);
  EXPECT_EQ(shop[0].expires_at, kStart + absl::Minutes(1));
  EXPECT_EQ(shop[1].state, TokenState::kRevoked);
  EXPECT_EQ(admin_->ListTokens("nobody").status().code(), kNotFound);
  Put(MakePrincipal("new"));
  EXPECT_THAT(Tokens("new"), IsEmpty());
}

TEST_F(AccessTest, DeadTokensAreForgottenInTheEnd) {
  Put(MakePrincipal("shop"));
  EXPECT_TRUE(admin_->CreateToken("shop", MakeToken(1), absl::Hours(1)).ok());
  Create("shop", 2);
  EXPECT_TRUE(admin_->RevokeToken(MakeToken(2).id).ok());
  clock_.Advance(absl::Hours(24 * 90));
  Create("shop", 3);
  // The one that expired an hour after the other was revoked.
  ASSERT_THAT(Tokens(), SizeIs(3));
  clock_.Advance(absl::Hours(1) + absl::Seconds(1));
  Create("shop", 4);
  const auto tokens = Tokens();
  ASSERT_THAT(tokens, SizeIs(2));
  EXPECT_EQ(tokens[0].id, MakeToken(3).id);
  EXPECT_EQ(tokens[1].id, MakeToken(4).id);
}

TEST_F(AccessTest, UseIsNotedOnceAMinute) {
  Put(MakePrincipal("shop"));
  Create("shop", 1);
  Create("shop", 2);
  const AccessCommand used{.used_token_ids = {MakeToken(1).id, "no-such"}};
  const auto last_used = [&](size_t index) {
    return Tokens()[index].last_used_at;
  };
  EXPECT_EQ(last_used(0), std::nullopt);
  Load(used);
  EXPECT_EQ(last_used(0), kStart);
  EXPECT_EQ(last_used(1), std::nullopt);
  clock_.Advance(absl::Seconds(59));
  Load(used);
  EXPECT_EQ(last_used(0), kStart);
  clock_.Advance(absl::Seconds(1));
  Load(used);
  EXPECT_EQ(last_used(0), kStart + absl::Minutes(1));
}

// Whoever is locked is noted another time: the list does not wait.
TEST_F(AccessTest, LockedTokensAreReadAndNotNoted) {
  Put(MakePrincipal("shop"));
  Create("shop", 1);
  Create("shop", 2);
  const AccessCommand used{
      .used_token_ids = {MakeToken(1).id, MakeToken(2).id}};
  for (const char* lock :
       {"BEGIN; SELECT FROM dedupe.token_use WHERE id = '0000000000000001'"
        " FOR UPDATE",
        "BEGIN; LOCK TABLE dedupe.token_use IN EXCLUSIVE MODE"}) {
    ASSERT_EQ(session_.Run(lock).sqlstate, "");
    EXPECT_THAT(Load(used).list->tokens, SizeIs(2));
    session_.Run("ROLLBACK");
    EXPECT_EQ(Tokens()[0].last_used_at, std::nullopt) << lock;
  }
  // The first lock was on one row alone.
  EXPECT_EQ(Tokens()[1].last_used_at, kStart);
}

// A server that hangs, or whoever has its login, must not keep its tokens.
TEST_F(AccessTest, TokenIsRevokedWhateverServersLock) {
  Put(MakePrincipal("shop"));
  Create("shop", 1);
  ASSERT_EQ(session_
                .Run("BEGIN; SELECT dedupe.access(0, ARRAY['" +
                     MakeToken(1).id + "'])")
                .sqlstate,
            "");
  EXPECT_TRUE(admin_->RevokeToken(MakeToken(1).id).ok());
  session_.Run("ROLLBACK");
  EXPECT_THAT(Load({}).list->tokens, IsEmpty());
}

// Administrators who wait for each other do not make servers wait.
TEST_F(AccessTest, ListIsReadWhileSomethingChanges) {
  Put(MakePrincipal("shop"));
  ASSERT_EQ(session_
                .Run("BEGIN; SELECT dedupe.put_principal('mail', 'reader',"
                     " '{x}', NULL, NULL, NULL, NULL, NULL)")
                .sqlstate,
            "");
  EXPECT_THAT(List().principals, ElementsAre(MakePrincipal("shop")));
  ASSERT_EQ(session_.Run("COMMIT").sqlstate, "");
  EXPECT_THAT(List().principals, SizeIs(2));
}

// And does not keep the others out.
TEST_F(AccessTest, RoleOfALaterVersionMayNothing) {
  Put(MakePrincipal("mail"));
  Put(MakePrincipal("shop"));
  ASSERT_EQ(session_.Run("ALTER TYPE dedupe.principal_role ADD VALUE 'auditor'")
                .sqlstate,
            "");
  ASSERT_EQ(session_
                .Run("UPDATE dedupe.principal SET role = 'auditor'"
                     " WHERE name = 'mail'")
                .sqlstate,
            "");
  const auto answer = calls_.LoadAccess({});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_THAT(answer->list->principals, SizeIs(2));
  EXPECT_EQ(answer->list->principals[0].role, Role::kUnknown);
  EXPECT_EQ(answer->list->principals[1], MakePrincipal("shop"));
}

}  // namespace
}  // namespace dedupe::testing
