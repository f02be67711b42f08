// A payments server dies in the middle of a charge, or stands still for so long
// that it is taken for dead, and another one takes over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/proof/proof_test.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::SizeIs;

constexpr int kRuns = 50;
// A run is for the most part waiting for a lease to lapse.
constexpr int kLanes = 5;
constexpr absl::Duration kLimit = absl::Seconds(30);

struct Crash {
  const char* test;
  const char* letter;
  const char* name;
  const char* broken;
  Door door;
  const char* fault;
  // What the ledger's PostgreSQL tells an attempt that comes too late.
  const char* refusal = "";
};

void PrintTo(const Crash& crash, std::ostream* out) { *out << crash.test; }

// No charge here names an order, so that nothing but receipts, or the one
// transaction, keeps the second one out.
class CrashProof : public ProofTest,
                   public ::testing::WithParamInterface<Crash> {
 protected:
  CrashProof() : ProofTest(GetParam().door) {
    Describe(GetParam().letter, GetParam().name, GetParam().broken);
    ExpectRows(kRuns);
  }

  PaymentsOptions Successor() const {
    PaymentsOptions successor = options();
    successor.lease = "400ms";
    // Longer than the lease: a Begin lives to see it lapse.
    successor.wait = "700ms";
    return successor;
  }
  PaymentsOptions Faulty() const {
    PaymentsOptions faulty = Successor();
    faulty.fault = GetParam().fault;
    // Each server's first charge, or all of them.
    faulty.fault_times = kRuns;
    return faulty;
  }
  static ShopOptions ShopAt(const HttpProxy& proxy) {
    ShopOptions shop;
    shop.port = proxy.port();
    shop.journal = NewJournal();
    // Longer than `wait`, so that the successor's answer is waited for.
    shop.try_timeout = "1s";
    return shop;
  }

  // How often the ledger's PostgreSQL has refused a late attempt so far.
  static int64_t Refusals() {
    const std::vector<std::string> parts =
        absl::StrSplit(PostgresCluster::Shared().log(),
                       absl::StrCat("ERROR:  ", GetParam().refusal, ":"));
    return static_cast<int64_t>(parts.size()) - 1;
  }

  // The shop got the one charge, under the one key.
  void ExpectOneCharge(const ShopResult& result, const HttpProxy& proxy) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(result.status, 201) << result.output;
    EXPECT_EQ(ledger().ChargesWithId(ChargeIdOf(result.body)), 1)
        << result.output;
    EXPECT_THAT(KeysOnTheWire(proxy), AllOf(SizeIs(Ge(2)), Each(result.key)));
    CountRequests(proxy);
    CountRun();
  }
};

class KilledServerProof : public CrashProof {};

TEST_P(KilledServerProof, TakeoverAnswersWithTheOneCharge) {
  const PaymentsServer successor(Successor());
  RunInLanes(kLanes, kRuns, [&](int, int) {
    PaymentsServer doomed(Faulty());
    HttpProxy proxy(doomed.port());
    Shop shop(ShopAt(proxy));
    EXPECT_EQ(doomed.process().Wait(), 128 + SIGKILL);
    proxy.SetUpstream(successor.port());
    ExpectOneCharge(shop.Finish(), proxy);
  });
  EXPECT_EQ(ledger().CardAuthorizations(), kRuns);
  // What was committed is not worked for again.
  if (absl::StartsWith(GetParam().fault, "after-commit")) {
    EXPECT_EQ(ledger().CardRequests(), kRuns);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, KilledServerProof,
    ::testing::Values(
        Crash{"ReceiptsAfterCommit", "i",
              "takeover finds the receipt, original response",
              "payments server SIGKILLed between its commit and Complete",
              Door::kReceipts, "after-commit:kill"},
        Crash{"ReceiptsBeforeCommit", "j",
              "takeover voids the lost attempt and runs",
              "payments server SIGKILLed before its commit", Door::kReceipts,
              "before-commit:kill"},
        Crash{"SharedAfterCommit", "k",
              "shared database: completed with the commit, replayed",
              "payments server SIGKILLed after its commit", Door::kShared,
              "after-commit:kill"},
        Crash{"SharedBeforeCommit", "k",
              "shared database: rolled back whole, takeover runs",
              "payments server SIGKILLed before its commit", Door::kShared,
              "before-commit:kill"}),
    [](const auto& test) { return std::string(test.param.test); });

class FrozenServerProof : public CrashProof {};

TEST_P(FrozenServerProof, LateCommitAddsNoSecondCharge) {
  const int64_t refusals = Refusals();
  const PaymentsServer successor(Successor());
  // Each is stopped in all its charges, and thawed in between.
  std::vector<std::unique_ptr<PaymentsServer>> frozen;
  frozen.reserve(kLanes);
  for (int lane = 0; lane < kLanes; ++lane) {
    frozen.push_back(std::make_unique<PaymentsServer>(Faulty()));
  }
  RunInLanes(kLanes, kRuns, [&](int lane, int) {
    PaymentsServer& server = *frozen[static_cast<size_t>(lane)];
    HttpProxy proxy(server.port());
    Shop shop(ShopAt(proxy));
    EXPECT_TRUE(server.WaitUntilStopped());
    proxy.SetUpstream(successor.port());
    // By the successor, when the lease has lapsed.
    EXPECT_TRUE(proxy.WaitForAnswered(1, kLimit));
    server.process().Signal(SIGCONT);
    const ShopResult result = shop.Finish();
    // The frozen server's late answer, which nobody hears, included: it has
    // tried to commit.
    EXPECT_TRUE(proxy.WaitForAnswered(proxy.requests().size(), kLimit));
    ExpectOneCharge(result, proxy);
  });
  EXPECT_EQ(ledger().CardAuthorizations(), kRuns);
  // Each late commit was asked for, and refused.
  EXPECT_GE(Refusals() - refusals, kRuns);
}

INSTANTIATE_TEST_SUITE_P(
    All, FrozenServerProof,
    ::testing::Values(
        Crash{"Receipts", "j", "the void marker refuses the late commit",
              "payments server SIGSTOPped before its commit, thawed after the"
              " takeover",
              Door::kReceipts, "before-commit:stop", "VOIDED"},
        Crash{"Shared", "k", "shared database: only one of the two commits",
              "payments server SIGSTOPped before its commit, thawed after its"
              " lease",
              Door::kShared, "before-commit:stop", "LEASE_LOST"}),
    [](const auto& test) { return std::string(test.param.test); });

}  // namespace
}  // namespace dedupe::testing
