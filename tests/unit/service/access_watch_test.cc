// The list of who may touch what: found in it, kept current, aged, and gone.
#include "server/service/access_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/service/reason.h"

namespace dedupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

MATCHER_P(IsRefusal, reason, "") { return ReasonOf(arg) == reason; }

constexpr absl::Duration kInterval = absl::Milliseconds(10);

Principal PrincipalOf(const std::string& name) {
  Principal principal;
  principal.name = name;
  principal.role = Role::kCaller;
  principal.client_ids = {name + "/*"};
  return principal;
}

PresentedToken Present(const MintedToken& token) {
  return *ParseBearer("Bearer " + token.text);
}

Token TokenOf(const MintedToken& minted, const std::string& principal,
              std::optional<absl::Time> expires_at = std::nullopt) {
  return {minted.id, minted.sha256, principal, expires_at};
}

// A database with one list in it, and the watch that reads it.
class AccessWatchTest : public ::testing::Test {
 protected:
  AccessWatchTest() {
    list_.principals = {PrincipalOf("shop"), PrincipalOf("mail")};
    list_.tokens = {TokenOf(shop_, "shop"), TokenOf(mail_, "mail")};
    list_.certificate_names = {{"uri:spiffe://acme/shop", "shop"}};
  }

  void Start(absl::Duration age_max = absl::Seconds(15)) {
    watch_.emplace([this](AccessCommand command) { return Answer(command); },
                   AccessWatch::Options{kInterval, age_max});
    AwaitReadings(1);
  }

  void Change(const std::function<void(AccessList&)>& change) {
    {
      absl::MutexLock lock(&mutex_);
      change(list_);
      ++version_;
    }
    AwaitReadings(2);
  }

  void SetDown(bool down) {
    absl::MutexLock lock(&mutex_);
    down_ = down;
  }
  void SetClock(absl::Time time) {
    {
      absl::MutexLock lock(&mutex_);
      time_ = time;
    }
    AwaitReadings(2);
  }

  // So many more readings have begun, and all but the last have taken effect.
  void AwaitReadings(int more) {
    absl::MutexLock lock(&mutex_);
    const int enough = readings_ + more + 1;
    const auto reached = [this, enough]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                             mutex_) { return readings_ >= enough; };
    ASSERT_TRUE(
        mutex_.AwaitWithTimeout(absl::Condition(&reached), absl::Seconds(10)));
  }

  std::vector<std::string> used() {
    absl::MutexLock lock(&mutex_);
    return used_;
  }
  int lists_sent() {
    absl::MutexLock lock(&mutex_);
    return lists_sent_;
  }

  AccessWatch& watch() { return *watch_; }

  const MintedToken shop_ = *MintToken();
  const MintedToken mail_ = *MintToken();

 private:
  absl::StatusOr<AccessAnswer> Answer(const AccessCommand& command) {
    absl::MutexLock lock(&mutex_);
    ++readings_;
    if (down_) return Refusal(Reason::kStoreDown);
    used_.insert(used_.end(), command.used_token_ids.begin(),
                 command.used_token_ids.end());
    AccessAnswer answer;
    answer.version = version_;
    answer.decided_at = time_;
    if (command.known_version != version_) {
      answer.list = list_;
      ++lists_sent_;
    }
    return answer;
  }

  absl::Mutex mutex_;
  AccessList list_ ABSL_GUARDED_BY(mutex_);
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 7;
  absl::Time time_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'000'000);
  bool down_ ABSL_GUARDED_BY(mutex_) = false;
  int readings_ ABSL_GUARDED_BY(mutex_) = 0;
  int lists_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> used_ ABSL_GUARDED_BY(mutex_);
  // Last, because its thread uses the others.
  std::optional<AccessWatch> watch_;
};

TEST_F(AccessWatchTest, TokenFindsItsPrincipal) {
  Start();
  const auto caller = watch().FindByToken(Present(shop_));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(*caller->principal, PrincipalOf("shop"));
}

TEST_F(AccessWatchTest, UnknownTokenIsRefused) {
  Start();
  EXPECT_THAT(watch().FindByToken(Present(*MintToken())).status(),
              IsRefusal(Reason::kCredentialsRefused));
}

TEST_F(AccessWatchTest, SecretOfAnotherTokenIsRefused) {
  Start();
  PresentedToken mixed = Present(shop_);
  mixed.id = mail_.id;
  EXPECT_THAT(watch().FindByToken(mixed).status(),
              IsRefusal(Reason::kCredentialsRefused));
}

TEST_F(AccessWatchTest, RevokedTokenIsRefusedAfterTheNextReading) {
  Start();
  ASSERT_TRUE(watch().FindByToken(Present(shop_)).ok());
  Change([](AccessList& list) { list.tokens.erase(list.tokens.begin()); });
  EXPECT_THAT(watch().FindByToken(Present(shop_)).status(),
              IsRefusal(Reason::kCredentialsRefused));
  EXPECT_TRUE(watch().FindByToken(Present(mail_)).ok());
}

TEST_F(AccessWatchTest, TokenExpiresByTheDatabasesClock) {
  const absl::Time expires_at = absl::FromUnixSeconds(2'000'000);
  Start();
  Change([&](AccessList& list) { list.tokens[0].expires_at = expires_at; });
  EXPECT_TRUE(watch().FindByToken(Present(shop_)).ok());
  SetClock(expires_at);
  EXPECT_THAT(watch().FindByToken(Present(shop_)).status(),
              IsRefusal(Reason::kCredentialsRefused));
}

TEST_F(AccessWatchTest, FirstKnownNameOfACertificateCounts) {
  Start();
  const auto caller =
      watch().FindByCertificate({"dns:unknown", "uri:spiffe://acme/shop"});
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->principal->name, "shop");
  EXPECT_THAT(watch().FindByCertificate({"dns:unknown"}).status(),
              IsRefusal(Reason::kPeerUnknown));
  EXPECT_THAT(watch().FindByCertificate({}).status(),
              IsRefusal(Reason::kPeerUnknown));
}

TEST_F(AccessWatchTest, CaseCountsInUrisAndNotInDnsNames) {
  Start();
  Change([](AccessList& list) {
    list.certificate_names.push_back({"dns:Mail.Internal", "mail"});
  });
  EXPECT_TRUE(watch().FindByCertificate({"dns:mail.INTERNAL"}).ok());
  EXPECT_FALSE(watch().FindByCertificate({"uri:spiffe://acme/SHOP"}).ok());
}

TEST_F(AccessWatchTest, UseOfAPrincipalSurvivesChanges) {
  Start();
  const auto before = watch().FindByToken(Present(shop_));
  Change([](AccessList& list) { list.principals[0].role = Role::kReader; });
  const auto after = watch().FindByToken(Present(shop_));
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(after->principal->role, Role::kReader);
  EXPECT_EQ(after->use, before->use);
}

TEST_F(AccessWatchTest, ListIsSentOnlyWhenItHasChanged) {
  Start();
  AwaitReadings(5);
  EXPECT_EQ(lists_sent(), 1);
  Change([](AccessList& list) { list.tokens.clear(); });
  AwaitReadings(5);
  EXPECT_EQ(lists_sent(), 2);
}

TEST_F(AccessWatchTest, UsesAreReportedOnce) {
  Start();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(watch().FindByToken(Present(shop_)).ok());
  }
  AwaitReadings(3);
  EXPECT_THAT(used(), ElementsAre(shop_.id));
  ASSERT_TRUE(watch().FindByToken(Present(mail_)).ok());
  AwaitReadings(3);
  EXPECT_THAT(used(), ElementsAre(shop_.id, mail_.id));
}

TEST_F(AccessWatchTest, RefusedTokenIsNoUse) {
  Start();
  PresentedToken mixed = Present(shop_);
  mixed.id = mail_.id;
  EXPECT_FALSE(watch().FindByToken(mixed).ok());
  AwaitReadings(3);
  EXPECT_THAT(used(), IsEmpty());
}

TEST_F(AccessWatchTest, UsesOutliveADatabaseThatIsAway) {
  Start();
  SetDown(true);
  ASSERT_TRUE(watch().FindByToken(Present(shop_)).ok());
  AwaitReadings(3);
  SetDown(false);
  AwaitReadings(3);
  EXPECT_THAT(used(), ElementsAre(shop_.id));
}

TEST_F(AccessWatchTest, NobodyIsLetInBeforeTheFirstReading) {
  SetDown(true);
  Start();
  EXPECT_THAT(watch().Status(), IsRefusal(Reason::kStoreDown));
  EXPECT_THAT(watch().FindByToken(Present(shop_)).status(),
              IsRefusal(Reason::kStoreDown));
  EXPECT_THAT(watch().FindByCertificate({"uri:spiffe://acme/shop"}).status(),
              IsRefusal(Reason::kStoreDown));
  SetDown(false);
  AwaitReadings(2);
  EXPECT_TRUE(watch().FindByToken(Present(shop_)).ok());
}

TEST_F(AccessWatchTest, NobodyIsLetInByAListThatIsTooOld) {
  constexpr absl::Duration kAgeMax = absl::Milliseconds(200);
  Start(kAgeMax);
  SetDown(true);
  EXPECT_TRUE(watch().FindByToken(Present(shop_)).ok());
  absl::SleepFor(kAgeMax + absl::Milliseconds(50));
  EXPECT_THAT(watch().FindByToken(Present(shop_)).status(),
              IsRefusal(Reason::kStoreDown));
  SetDown(false);
  AwaitReadings(2);
  EXPECT_TRUE(watch().FindByToken(Present(shop_)).ok());
}

TEST_F(AccessWatchTest, EverybodyIsListed) {
  Start();
  std::vector<std::string> names;
  for (const Caller& caller : watch().Callers()) {
    names.push_back(caller.principal->name);
  }
  EXPECT_THAT(names, UnorderedElementsAre("shop", "mail"));
}

// What the database's constraints rule out changes nothing for the others.
TEST_F(AccessWatchTest, TokenOfNobodyIsLeftOut) {
  const MintedToken stray = *MintToken();
  Start();
  Change([&](AccessList& list) {
    list.tokens.push_back(TokenOf(stray, "nobody"));
    list.certificate_names.push_back({"dns:stray", "nobody"});
  });
  EXPECT_THAT(watch().FindByToken(Present(stray)).status(),
              IsRefusal(Reason::kCredentialsRefused));
  EXPECT_THAT(watch().FindByCertificate({"dns:stray"}).status(),
              IsRefusal(Reason::kPeerUnknown));
  EXPECT_TRUE(watch().FindByToken(Present(shop_)).ok());
}

}  // namespace
}  // namespace dedupe
