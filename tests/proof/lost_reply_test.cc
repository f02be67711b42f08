// The answer is lost, or the client is, and the client asks again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/proof/proof_test.h"

namespace dedupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr absl::Duration kLimit = absl::Seconds(20);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// Charges here name no order, so that nothing but the key catches a second one.
class LostReplyProof : public ProofTest {
 protected:
  ShopOptions ShopFor(int run) const {
    ShopOptions shop;
    shop.port = proxy_.port();
    shop.journal = journal_;
    shop.vessel = absl::StrCat("checkout-", run);
    return shop;
  }
  void TearDown() override {
    CountRequests(proxy_);
    ProofTest::TearDown();
  }

  const std::string journal_ = NewJournal();
  PaymentsServer server_{options()};
  HttpProxy proxy_{server_.port()};
};

TEST_F(LostReplyProof, RetryIsReplayed) {
  Describe("a", "reply dropped, client retries",
           "reply swallowed, then RST or FIN");
  constexpr int kRuns = 20;
  ExpectRows(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    const size_t sent = proxy_.requests().size();
    proxy_.ForNext(1, run % 2 == 0 ? ReplyFate::kReset : ReplyFate::kClose);
    const ShopResult result = Shop(ShopFor(run)).Finish();
    EXPECT_THAT(result, Ended(201, true));
    EXPECT_EQ(result.tries, 2);
    EXPECT_THAT(KeysOnTheWire(proxy_, sent),
                ElementsAre(result.key, result.key));
    EXPECT_EQ(ledger().ChargesWithId(ChargeIdOf(result.body)), 1);
    CountRun();
  }
}

// What the journal is for, shown by taking it away: this is the fault that the
// other scenarios would not forgive.
TEST_F(LostReplyProof, WipedJournalMeansASecondCharge) {
  Describe("b",
           "the same with the journal wiped: the protection is gone, 2 rows",
           "reply swallowed, journal deleted");
  constexpr int kRuns = 10;
  ExpectRows(2 * kRuns);
  for (int run = 0; run < kRuns; ++run) {
    const size_t sent = proxy_.requests().size();
    proxy_.ForNext(1, ReplyFate::kReset);
    ShopOptions once = ShopFor(run);
    once.tries = 1;
    EXPECT_EQ(Shop(once).Finish().exit_code, 2);
    std::filesystem::remove(journal_);
    const ShopResult second = Shop(ShopFor(run)).Finish();
    EXPECT_THAT(second, Ended(201, false));
    EXPECT_THAT(KeysOnTheWire(proxy_, sent),
                ElementsAre(Not(second.key), second.key));
    CountRun();
  }
}

TEST_F(LostReplyProof, ClientKilledBeforeItSentFindsItsKey) {
  Describe("c", "client restarted after a crash",
           "client SIGKILLed after its journal write");
  constexpr int kRuns = 10;
  ExpectRows(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    ShopOptions killed = ShopFor(run);
    killed.kill_at = "after-journal";
    EXPECT_EQ(Shop(killed).Finish().exit_code, 128 + SIGKILL);
    EXPECT_THAT(proxy_.requests(), SizeIs(run));
    const std::string journal = ReadFile(journal_);
    const ShopResult result = Shop(ShopFor(run)).Finish();
    EXPECT_THAT(result, Ended(201, false));
    EXPECT_THAT(journal, HasSubstr(result.key));
    CountRun();
  }
}

TEST_F(LostReplyProof, ClientKilledAfterItSentIsReplayed) {
  Describe("c", "client restarted after a crash",
           "client SIGKILLed after its request was sent");
  constexpr int kRuns = 10;
  ExpectRows(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    const size_t sent = proxy_.requests().size();
    ShopOptions killed = ShopFor(run);
    killed.kill_at = "after-send";
    EXPECT_EQ(Shop(killed).Finish().exit_code, 128 + SIGKILL);
    ASSERT_TRUE(proxy_.WaitForAnswered(sent + 1, kLimit));
    const ShopResult result = Shop(ShopFor(run)).Finish();
    EXPECT_THAT(result, Ended(201, true));
    EXPECT_THAT(KeysOnTheWire(proxy_, sent),
                ElementsAre(result.key, result.key));
    CountRun();
  }
}

}  // namespace
}  // namespace dedupe::testing
