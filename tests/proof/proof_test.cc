#include "tests/proof/proof_test.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

// One for all scenarios whose fault is not its own.
const ServerProcess& SharedDedupe() {
  PostgresCluster& cluster = PostgresCluster::Shared();
  static const ServerProcess kServer(
      {.database_url =
           cluster.Url(cluster.CreateMigratedDatabase(), "dedupe_server"),
       .settings = {},
       .environment = {}});
  return kServer;
}

PaymentsOptions OptionsFor(const Ledger& ledger, Door door) {
  PaymentsOptions options;
  options.ledger_url = ledger.url();
  options.door = door;
  if (door == Door::kReceipts) {
    options.dedupe_target = SharedDedupe().address();
  }
  return options;
}

}  // namespace

ProofTest::ProofTest(Door door)
    : ledger_(PostgresCluster::Shared(), door),
      options_(OptionsFor(ledger_, door)) {}

void ProofTest::TearDown() {
  result_.rows_seen = ledger_.Charges();
  EXPECT_EQ(result_.rows_seen, rows_expected_);
  result_.rows_expected = rows_expected_;
  result_.runs = runs_;
  result_.requests = requests_;
  result_.holds = !HasFailure();
  ReportScenario(result_);
}

void ProofTest::Describe(const std::string& letter, const std::string& name,
                         const std::string& broken) {
  result_.letter = letter;
  result_.name = name;
  result_.broken = broken;
}

ChargeReply ProofTest::Post(int port, const ChargeRequest& request) {
  ++requests_;
  return PostCharge(port, request);
}

std::string ProofTest::NewJournal() {
  static std::atomic<int> count{0};
  return absl::StrCat(ScratchDirectory(), "/journal-", ++count);
}

void RunInLanes(int lanes, int runs, const std::function<void(int, int)>& run) {
  std::atomic<int> next{0};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      for (int n = next++; n < runs; n = next++) run(lane, n);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::string> KeysOnTheWire(const HttpProxy& proxy, size_t from) {
  std::vector<std::string> keys;
  const std::vector<std::string> requests = proxy.requests();
  for (size_t i = from; i < requests.size(); ++i) {
    for (absl::string_view key : HeaderValues(requests[i], "Idempotency-Key")) {
      absl::ConsumePrefix(&key, "\"");
      absl::ConsumeSuffix(&key, "\"");
      keys.emplace_back(key);
    }
  }
  return keys;
}

void PrintTo(const ShopResult& result, std::ostream* out) {
  *out << "exit code " << result.exit_code << ": " << result.output;
}

}  // namespace dedupe::testing
