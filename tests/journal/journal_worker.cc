// A process to be killed: eight threads that intend and settle as fast as they
// can, and say what was acknowledged.
//
//   journal_worker PATH ROUND
//
// Says, on standard output, in one write for each line:
//   intend VESSEL KEY     Intend has returned that key
//   settle VESSEL         Settle has returned OK
// Anything else that it says is a failure. The rules are in crash_plan.h.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dedupe/journal.h"
#include "tests/journal/crash_plan.h"

namespace dedupe::client {
namespace {

void Say(const std::string& line) {
  const std::string bytes = line + "\n";
  if (write(STDOUT_FILENO, bytes.data(), bytes.size()) < 0) std::abort();
}

void Work(Journal& journal, int round, int thread) {
  std::mt19937 random(static_cast<unsigned>(round * kCrashThreads + thread));
  for (;;) {
    const int of_round =
        std::max(0, round - static_cast<int>(random() % kRoundsOfAVessel));
    const int number = static_cast<int>(random() % kVesselsOfARound);
    const std::string vessel = CrashVessel(of_round, number);
    const absl::StatusOr<Intent> intent = journal.Intend(vessel);
    if (!intent.ok()) return Say(absl::StrCat("failed: ", vessel));
    Say(absl::StrCat("intend ", vessel, " ", intent->key));
    if (StaysPending(of_round, number) || random() % 8 == 0) continue;
    if (!journal.Settle(vessel).ok()) {
      return Say(absl::StrCat("failed: ", vessel));
    }
    Say(absl::StrCat("settle ", vessel));
  }
}

int Run(const std::string& path, int round) {
  const auto journal = Journal::Open(path, CrashOptions(round));
  if (!journal.ok()) {
    Say(absl::StrCat("failed: ", journal.status().ToString()));
    return 1;
  }
  std::vector<std::thread> threads;
  threads.reserve(kCrashThreads);
  for (int i = 0; i < kCrashThreads; ++i) {
    threads.emplace_back([&, i] { Work(**journal, round, i); });
  }
  for (std::thread& thread : threads) thread.join();
  return 1;
}

}  // namespace
}  // namespace dedupe::client

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return dedupe::client::Run(argv[1], std::atoi(argv[2]));
}
