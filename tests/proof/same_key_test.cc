// One key comes twice, or not as it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dedupe/key.h"
#include "tests/proof/proof_test.h"

namespace dedupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Field;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr absl::Duration kLimit = absl::Seconds(20);
constexpr char kRefusedCard[] = "4000000000000002";

class SameKeyProof : public ProofTest {
 protected:
  PaymentsOptions With(const std::string& wait) const {
    PaymentsOptions with = options();
    with.wait = wait;
    return with;
  }

  // Both leave at one instant.
  std::vector<ChargeReply> PostTogether(int port, const ChargeRequest& one,
                                        const ChargeRequest& other) {
    std::vector<ChargeReply> replies(2);
    std::barrier together(2);
    std::thread tap([&] {
      together.arrive_and_wait();
      replies[0] = Post(port, one);
    });
    together.arrive_and_wait();
    replies[1] = Post(port, other);
    tap.join();
    return replies;
  }

  // The scenario e, whose answer the profile decides.
  void ExpectOtherAmountRefused(const std::string& profile, int status) {
    PaymentsOptions with = options();
    with.profile = profile;
    const PaymentsServer server(with);
    constexpr int kRuns = 5;
    ExpectRows(kRuns);
    for (int run = 0; run < kRuns; ++run) {
      const ChargeRequest charge = ChargeOf(client::NewKey());
      ChargeRequest other = charge;
      other.amount = 4300;
      const ChargeReply first = Post(server.port(), charge);
      EXPECT_THAT(first, IsFreshCharge());
      EXPECT_THAT(Post(server.port(), other), IsProblem(status));
      const ChargeReply again = Post(server.port(), charge);
      EXPECT_THAT(again, IsReplayedCharge());
      EXPECT_EQ(again.body, first.body);
      CountRun();
    }
  }
};

TEST_F(SameKeyProof, SecondTapWaitsAndReplays) {
  Describe("d", "two taps at one instant, waiting on", "two requests race");
  const PaymentsServer server(With("5s"));
  constexpr int kRuns = 50;
  ExpectRows(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    const ChargeRequest charge = ChargeOf(client::NewKey());
    const std::vector<ChargeReply> replies =
        PostTogether(server.port(), charge, charge);
    EXPECT_THAT(replies,
                UnorderedElementsAre(IsFreshCharge(), IsReplayedCharge()));
    EXPECT_EQ(replies[0].body, replies[1].body);
    CountRun();
  }
}

// The ledger's table is locked until one of the two has its answer, so that
// they meet in every run.
TEST_F(SameKeyProof, SecondTapIsToldToComeAgain) {
  Describe("d", "two taps at one instant, waiting off: 409, later replayed",
           "two requests race, slow ledger");
  const PaymentsServer server(With("0"));
  const HttpProxy proxy(server.port());
  constexpr int kRuns = 30;
  ExpectRows(kRuns);
  pqxx::connection connection(ledger().url());
  for (int run = 0; run < kRuns; ++run) {
    const ChargeRequest charge = ChargeOf(client::NewKey());
    pqxx::work slow(connection);
    slow.exec("LOCK TABLE payments.charge IN EXCLUSIVE MODE");
    std::thread unlock([&, answered = proxy.answered()] {
      EXPECT_TRUE(proxy.WaitForAnswered(answered + 1, kLimit));
      slow.commit();
    });
    const std::vector<ChargeReply> replies =
        PostTogether(proxy.port(), charge, charge);
    unlock.join();
    EXPECT_THAT(
        replies,
        UnorderedElementsAre(
            IsFreshCharge(),
            AllOf(IsProblem(409),
                  Field("retry_after", &ChargeReply::retry_after, Not("")))));
    EXPECT_THAT(Post(proxy.port(), charge), IsReplayedCharge());
    CountRun();
  }
}

TEST_F(SameKeyProof, OtherAmountIsRefused) {
  Describe("e", "same key, other amount: 422", "client mixes up its keys");
  ExpectOtherAmountRefused("ietf", 422);
}

TEST_F(SameKeyProof, OtherAmountIsAConflictUnderThatProfile) {
  Describe("e", "same key, other amount: 409 in profile conflict409",
           "client mixes up its keys");
  ExpectOtherAmountRefused("conflict409", 409);
}

TEST_F(SameKeyProof, NoKeyOrABrokenOneIsRefused) {
  Describe("f", "no key, or a malformed one: 400", "header left out or broken");
  const PaymentsServer server(options());
  ExpectRows(0);
  ChargeRequest charge;
  EXPECT_THAT(Post(server.port(), charge), IsProblem(400));
  CountRun();
  for (const char* header : {"\"not closed", "\"\"", "two, keys"}) {
    charge.key_header = header;
    EXPECT_THAT(Post(server.port(), charge), IsProblem(400)) << header;
    CountRun();
  }
}

TEST_F(SameKeyProof, RefusedCardIsNotAskedTwice) {
  Describe("g", "card refused: 402 stored and replayed, card asked once",
           "the card network says no");
  const PaymentsServer server(options());
  constexpr int kRuns = 5;
  ExpectRows(0);
  for (int run = 0; run < kRuns; ++run) {
    ChargeRequest charge = ChargeOf(client::NewKey());
    charge.card = kRefusedCard;
    const ChargeReply first = Post(server.port(), charge);
    const ChargeReply again = Post(server.port(), charge);
    EXPECT_EQ(first.status, 402);
    EXPECT_EQ(first.replayed, "");
    EXPECT_EQ(again.status, 402);
    EXPECT_EQ(again.replayed, "true");
    EXPECT_EQ(again.body, first.body);
    CountRun();
  }
  EXPECT_EQ(ledger().CardRequests(), kRuns);
}

TEST_F(SameKeyProof, FailureBeforeAnythingHappenedFreesTheKey) {
  Describe("h", "failure before the work: key freed, the retry runs",
           "server error before anything happened");
  constexpr int kRuns = 5;
  PaymentsOptions failing = options();
  failing.fault = "before-work:fail";
  const std::string journal = NewJournal();
  ExpectRows(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    const PaymentsServer server(failing);
    const HttpProxy proxy(server.port());
    ShopOptions shop;
    shop.port = proxy.port();
    shop.journal = journal;
    shop.vessel = absl::StrCat("checkout-", run);
    const ShopResult result = Shop(shop).Finish();
    EXPECT_THAT(result, Ended(201, false));
    EXPECT_EQ(result.tries, 2);
    CountRequests(proxy);
    CountRun();
  }
}

TEST_F(SameKeyProof, FailureIsReplayedUnderStripesProfile) {
  Describe("h", "the same in profile stripe: the 500 is replayed, no row",
           "server error before anything happened");
  PaymentsOptions failing = options();
  failing.fault = "before-work:fail";
  failing.profile = "stripe";
  failing.fault_times = 5;
  const PaymentsServer server(failing);
  ExpectRows(0);
  for (int run = 0; run < failing.fault_times; ++run) {
    const ChargeRequest charge = ChargeOf(client::NewKey());
    const ChargeReply first = Post(server.port(), charge);
    const ChargeReply again = Post(server.port(), charge);
    EXPECT_EQ(first.status, 500);
    EXPECT_EQ(first.replayed, "");
    EXPECT_EQ(again.status, 500);
    EXPECT_EQ(again.replayed, "true");
    EXPECT_EQ(again.body, first.body);
    CountRun();
  }
}

TEST_F(SameKeyProof, PaidOrderIsNotChargedUnderANewKey) {
  Describe("l", "new key for a paid order: the existing charge is returned",
           "client forgot its key, order known");
  const PaymentsServer server(options());
  constexpr int kRuns = 20;
  ExpectRows(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    ChargeRequest first = ChargeOf(client::NewKey());
    first.order_ref = absl::StrCat("order-", run);
    ChargeRequest second = ChargeOf(client::NewKey());
    second.order_ref = first.order_ref;
    // One after the other, or at one instant.
    std::vector<ChargeReply> replies;
    if (run % 2 == 0) {
      replies = {Post(server.port(), first), Post(server.port(), second)};
    } else {
      replies = PostTogether(server.port(), first, second);
    }
    EXPECT_THAT(replies, UnorderedElementsAre(
                             IsFreshCharge(),
                             Field("status", &ChargeReply::status, 200)));
    EXPECT_NE(ChargeIdOf(replies[0].body), "");
    EXPECT_EQ(ChargeIdOf(replies[0].body), ChargeIdOf(replies[1].body));
    CountRun();
  }
}

TEST_F(SameKeyProof, ExpiredKeyIsANewRequest) {
  Describe("n", "after the ttl the same key is a new request: 2 rows",
           "client retries too late");
  PaymentsOptions brief = options();
  brief.ttl = "500ms";
  const PaymentsServer server(brief);
  constexpr int kRuns = 3;
  ExpectRows(2 * kRuns);
  for (int run = 0; run < kRuns; ++run) {
    const ChargeRequest charge = ChargeOf(client::NewKey());
    const ChargeReply first = Post(server.port(), charge);
    EXPECT_THAT(first, IsFreshCharge());
    EXPECT_THAT(Post(server.port(), charge), IsReplayedCharge());
    ChargeReply late = first;
    const absl::Time until = absl::Now() + kLimit;
    do {
      absl::SleepFor(absl::Milliseconds(20));
      late = Post(server.port(), charge);
    } while (late.replayed == "true" && absl::Now() < until);
    EXPECT_THAT(late, IsFreshCharge());
    EXPECT_NE(ChargeIdOf(late.body), ChargeIdOf(first.body));
    CountRun();
  }
}

}  // namespace
}  // namespace dedupe::testing
