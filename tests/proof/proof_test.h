// What every scenario runs against: PostgreSQL, a dedupe server, and a ledger
// of its own. Each test is one line of the table.
#ifndef DEDUPE_TESTS_PROOF_PROOF_TEST_H_
#define DEDUPE_TESTS_PROOF_PROOF_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/proof/charge_request.h"
#include "tests/proof/ledger.h"
#include "tests/proof/payments_process.h"
#include "tests/proof/proof_report.h"
#include "tests/support/http_proxy.h"
#include "tests/support/server_process.h"

namespace dedupe::testing {

class ProofTest : public ::testing::Test {
 protected:
  explicit ProofTest(Door door = Door::kReceipts);
  // Counts the rows and adds the line to the table.
  void TearDown() override;

  // What the table says. Every test begins with it.
  void Describe(const std::string& letter, const std::string& name,
                const std::string& broken);
  // How many charges the ledger holds in the end if all is well.
  void ExpectRows(int64_t rows) { rows_expected_ = rows; }
  // These may be called by several threads.
  void CountRun() { ++runs_; }
  void CountRequests(const HttpProxy& proxy) {
    requests_ += static_cast<int64_t>(proxy.requests().size());
  }
  // Counted.
  ChargeReply Post(int port, const ChargeRequest& request);

  // For a server on this test's ledger.
  const PaymentsOptions& options() const { return options_; }
  const Ledger& ledger() const { return ledger_; }

  // A journal's path that no other call returns; there is no file.
  static std::string NewJournal();

 private:
  const Ledger ledger_;
  PaymentsOptions options_;
  ScenarioResult result_;
  int64_t rows_expected_ = -1;
  std::atomic<int64_t> runs_{0};
  std::atomic<int64_t> requests_{0};
};

// Calls run(lane, n) for each n from 0 to `runs` - 1: those of one lane one
// after the other, the lanes at the same time.
void RunInLanes(int lanes, int runs, const std::function<void(int, int)>& run);

// The keys of the proxy's requests from number `from` on, without quotes.
std::vector<std::string> KeysOnTheWire(const HttpProxy& proxy, size_t from = 0);

// Answered 201: by the attempt that ran, or from the store.
MATCHER(IsFreshCharge, "") { return arg.status == 201 && arg.replayed.empty(); }
MATCHER(IsReplayedCharge, "") {
  return arg.status == 201 && arg.replayed == "true";
}
MATCHER_P(IsProblem, status, "") {
  return arg.status == status && arg.content_type == "application/problem+json";
}
// A shop that ended with this status and the answer marked as `replayed`.
MATCHER_P2(Ended, status, replayed, "") {
  return arg.exit_code == 0 && arg.status == status && arg.replayed == replayed;
}
void PrintTo(const ShopResult& result, std::ostream* out);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_PROOF_PROOF_TEST_H_
