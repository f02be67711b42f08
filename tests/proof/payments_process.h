// The programs under proof: the payments server and the shop that is its
// client, as processes.
#ifndef DEDUPE_TESTS_PROOF_PAYMENTS_PROCESS_H_
#define DEDUPE_TESTS_PROOF_PAYMENTS_PROCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/process.h"

namespace dedupe::testing {

inline constexpr char kSecret[] = "test-secret";

// Where the work of a charge and its completion are committed.
enum class Door {
  // The ledger has a database of its own, and receipts in it.
  kReceipts,
  // The ledger and dedupe share a database, and one transaction.
  kShared,
};

struct PaymentsOptions {
  std::string ledger_url;
  // HOST:PORT of dedupe; unused behind Door::kShared.
  std::string dedupe_target;
  // For TLS, and for a token; none if empty.
  std::string dedupe_ca_file;
  std::string dedupe_token_file;
  Door door = Door::kReceipts;
  std::string profile = "ietf";
  // For another attempt's end.
  std::string wait = "2s";
  std::string lease = "30s";
  std::string ttl = "24h";
  // Such as "before-commit:kill"; none if empty.
  std::string fault;
  int fault_times = 1;
};

class PaymentsServer {
 public:
  // Returns when it listens, on a free port of 127.0.0.1. A server that does
  // not come up ends the test program with its output.
  explicit PaymentsServer(const PaymentsOptions& options);

  int port() const { return port_; }
  Process& process() { return *process_; }
  // False if it does not stand still (SIGSTOP) within the limit.
  bool WaitUntilStopped(absl::Duration limit = absl::Seconds(20)) const;

 private:
  std::unique_ptr<Process> process_;
  int port_ = 0;
};

// Into an empty database, or one that dedupe has migrated. Ends the test
// program if it fails.
void InstallPaymentsSchema(const PaymentsOptions& options);

struct ShopOptions {
  int port = 0;
  std::string journal;
  // What the journal knows the intent by.
  std::string vessel = "checkout-1";
  int amount = 4200;
  std::string card = "4242424242424242";
  // None if empty.
  std::string order_ref;
  std::string try_timeout = "5s";
  int tries = 20;
  // "after-journal" or "after-send"; not killed if empty.
  std::string kill_at;
};

struct ShopResult {
  // 0: a final answer; 2: it gave up; 137: it was killed.
  int exit_code = -1;
  std::string key;
  int status = 0;
  bool replayed = false;
  int tries = 0;
  std::string body;
  // All that it printed, for messages of failed tests.
  std::string output;
};

class Shop {
 public:
  // Starts to pay.
  explicit Shop(const ShopOptions& options);

  bool running() { return process_->running(); }
  // Waits for its end.
  ShopResult Finish(absl::Duration limit = absl::Seconds(60));

 private:
  std::unique_ptr<Process> process_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_PROOF_PAYMENTS_PROCESS_H_
