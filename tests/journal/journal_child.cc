// A process that uses a journal as its arguments say, and prints what came of
// each step in one write of its own:
//
//   journal_child PATH STEP...
//
//   intend VESSEL   settle VESSEL   pending
//   churn COUNT     so many intents, settled and forgotten at once
//   race VESSEL     two threads intend it; each prints
//   crowd COUNT     eight threads intend so many each
//   pause           for ever
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dedupe/journal.h"

namespace dedupe::client {
namespace {

void Print(const std::string& line) {
  const std::string bytes = line + "\n";
  if (write(STDOUT_FILENO, bytes.data(), bytes.size()) < 0) std::abort();
}

std::string CodeOf(const absl::Status& status) {
  return absl::StatusCodeToString(status.code());
}

void Intend(Journal& journal, const std::string& vessel) {
  const absl::StatusOr<Intent> intent = journal.Intend(vessel);
  Print(absl::StrCat("intend ", vessel, " ",
                     intent.ok() ? intent->key : CodeOf(intent.status()),
                     intent.ok() && intent->minted ? " minted" : ""));
}

void Churn(Journal& journal, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string vessel = absl::StrCat("churn-", i);
    const bool ok = journal.Intend(vessel).ok() && journal.Settle(vessel).ok();
    if (!ok) return Print(absl::StrCat("churn failed at ", i));
  }
  Print("churn OK");
}

void Crowd(Journal& journal, int count) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&journal, count, t] {
      for (int i = 0; i < count; ++i) {
        if (!journal.Intend(absl::StrCat("crowd-", t, "-", i)).ok())
          std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Print("crowd OK");
}

void Take(Journal& journal, const std::string& step,
          const std::string& argument) {
  if (step == "intend") {
    Intend(journal, argument);
  } else if (step == "settle") {
    Print(absl::StrCat("settle ", argument, " ",
                       CodeOf(journal.Settle(argument))));
  } else if (step == "pending") {
    Print(absl::StrCat("pending ", CodeOf(journal.Pending().status())));
  } else if (step == "churn") {
    Churn(journal, std::atoi(argument.c_str()));
  } else if (step == "race") {
    std::thread other([&] { Intend(journal, argument); });
    Intend(journal, argument);
    other.join();
  } else if (step == "crowd") {
    Crowd(journal, std::atoi(argument.c_str()));
  } else if (step == "pause") {
    for (;;) pause();
  }
}

int Run(const std::vector<std::string>& arguments) {
  JournalOptions options;
  // Settled intents are forgotten at once, so that the file is rewritten soon.
  options.keep_settled = absl::ZeroDuration();
  const auto journal = Journal::Open(arguments[0], options);
  Print(absl::StrCat("open ", CodeOf(journal.status())));
  if (!journal.ok()) return 1;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& step = arguments[i];
    const bool has_argument = step != "pause" && step != "pending";
    if (has_argument && i + 1 == arguments.size()) return 2;
    Take(**journal, step, has_argument ? arguments[++i] : "");
  }
  return 0;
}

}  // namespace
}  // namespace dedupe::client

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: journal_child PATH STEP...\n";
    return 2;
  }
  return dedupe::client::Run({argv + 1, argv + argc});
}
