#include "tests/proof/payments_process.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dedupe::testing {
namespace {

[[noreturn]] void Die(const std::string& what, const std::string& output) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), output.c_str());
  std::exit(1);
}

std::string Program(const std::string& name) {
  return absl::StrCat(BuildDirectory(), "/client/examples/payments/", name);
}

std::string OutputPath(const std::string& name) {
  static std::atomic<int> count{0};
  return absl::StrCat(ScratchDirectory(), "/", name, "-", ++count, ".log");
}

std::vector<std::string> Arguments(const PaymentsOptions& options) {
  std::vector<std::string> argv = {
      Program("payments_server"),
      "--listen=127.0.0.1:0",
      absl::StrCat("--ledger-url=", options.ledger_url),
      absl::StrCat("--profile=", options.profile),
      absl::StrCat("--wait=", options.wait),
      absl::StrCat("--lease=", options.lease),
      absl::StrCat("--ttl=", options.ttl),
      absl::StrCat("--api-key=", kSecret, ":acme")};
  if (options.door == Door::kShared) {
    argv.emplace_back("--mode=shared");
  } else {
    argv.emplace_back("--mode=receipts");
    argv.push_back(absl::StrCat("--dedupe-target=", options.dedupe_target));
    argv.push_back(absl::StrCat("--dedupe-ca-file=", options.dedupe_ca_file));
    argv.push_back(
        absl::StrCat("--dedupe-token-file=", options.dedupe_token_file));
  }
  if (!options.fault.empty()) {
    argv.push_back(absl::StrCat("--fault=", options.fault));
    argv.push_back(absl::StrCat("--fault-times=", options.fault_times));
  }
  return argv;
}

// The letter that /proc gives the process's state.
char StateOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // The name before it may hold anything, brackets included.
  const size_t end_of_name = line.rfind(')');
  return end_of_name == std::string::npos || end_of_name + 2 >= line.size()
             ? '?'
             : line[end_of_name + 2];
}

}  // namespace

PaymentsServer::PaymentsServer(const PaymentsOptions& options)
    : process_(std::make_unique<Process>(Arguments(options), Environment{},
                                         OutputPath("payments"))) {
  static const std::regex kListening("listening on 127\\.0\\.0\\.1:(\\d+)\n");
  const bool listens = process_->WaitForOutput("listening on ");
  const absl::Time until = absl::Now() + absl::Seconds(1);
  std::smatch match;
  std::string output = process_->Output();
  // The line may have been read in the middle of its being written.
  while (listens && !std::regex_search(output, match, kListening)) {
    if (absl::Now() > until) break;
    output = process_->Output();
  }
  if (match.empty() || !absl::SimpleAtoi(match[1].str(), &port_)) {
    Die("the payments server did not come up", output);
  }
}

bool PaymentsServer::WaitUntilStopped(absl::Duration limit) const {
  const absl::Time until = absl::Now() + limit;
  while (StateOf(process_->pid()) != 'T') {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

void InstallPaymentsSchema(const PaymentsOptions& options) {
  std::vector<std::string> argv = Arguments(options);
  argv.emplace_back("--install-schema");
  const ProcessResult result = RunProcess(argv);
  if (result.exit_code != 0) {
    Die("the payments schema was not installed",
        result.standard_output + result.standard_error);
  }
}

Shop::Shop(const ShopOptions& options) {
  std::vector<std::string> argv = {
      Program("shop"),
      absl::StrCat("--url=http://127.0.0.1:", options.port),
      absl::StrCat("--secret=", kSecret),
      absl::StrCat("--journal=", options.journal),
      absl::StrCat("--vessel=", options.vessel),
      absl::StrCat("--amount=", options.amount),
      "--currency=EUR",
      absl::StrCat("--card=", options.card),
      absl::StrCat("--try-timeout=", options.try_timeout),
      absl::StrCat("--tries=", options.tries)};
  if (!options.order_ref.empty()) {
    argv.push_back(absl::StrCat("--order-ref=", options.order_ref));
  }
  if (!options.kill_at.empty()) {
    argv.push_back(absl::StrCat("--kill-at=", options.kill_at));
  }
  process_ = std::make_unique<Process>(argv, Environment{}, OutputPath("shop"));
}

ShopResult Shop::Finish(absl::Duration limit) {
  static const std::regex kAnswer(
      "key=(\\S*) status=(\\d+) replayed=(true|false) tries=(\\d+) body=(.*)");
  ShopResult result;
  result.exit_code = process_->Wait(limit);
  result.output = process_->Output();
  std::smatch match;
  if (std::regex_search(result.output, match, kAnswer)) {
    result.key = match[1];
    result.replayed = match[3] == "true";
    result.body = match[5];
    // Digits that do not fit are seen as a status or count that is wrong.
    if (!absl::SimpleAtoi(match[2].str(), &result.status)) result.status = -1;
    if (!absl::SimpleAtoi(match[4].str(), &result.tries)) result.tries = -1;
  }
  return result;
}

}  // namespace dedupe::testing
