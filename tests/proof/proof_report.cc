#include "tests/proof/proof_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/support/process.h"

namespace dedupe::testing {
namespace {

constexpr size_t kNameWidth = 35;
constexpr size_t kBrokenWidth = 33;

// At spaces, where there are any.
std::vector<std::string> Wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines = {""};
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (lines.back().size() + 1 + word.size() > width &&
        !lines.back().empty()) {
      lines.emplace_back();
    }
    absl::StrAppend(&lines.back(), lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

// One line of the table with its columns; the numbers come ready as text.
std::string Line(const std::string& letter, const std::string& name,
                 const std::string& broken,
                 const std::array<std::string, 4>& rest) {
  std::string line = absl::StrFormat(
      " %-2s %-*s  %-*s %5s %8s %10s  %s", letter, kNameWidth, name,
      kBrokenWidth, broken, rest[0], rest[1], rest[2], rest[3]);
  absl::StripTrailingAsciiWhitespace(&line);
  return line + "\n";
}

std::string Lines(const ScenarioResult& result) {
  const std::vector<std::string> name = Wrap(result.name, kNameWidth);
  const std::vector<std::string> broken = Wrap(result.broken, kBrokenWidth);
  const std::array<std::string, 4> rest = {
      absl::StrCat(result.runs), absl::StrCat(result.requests),
      absl::StrCat(result.rows_expected, "/", result.rows_seen),
      result.holds ? "holds" : "FAILS"};
  std::string lines;
  for (size_t i = 0; i < std::max(name.size(), broken.size()); ++i) {
    absl::StrAppend(&lines, Line(i == 0 ? result.letter : "",
                                 i < name.size() ? name[i] : "",
                                 i < broken.size() ? broken[i] : "",
                                 i == 0 ? rest : std::array<std::string, 4>{}));
  }
  return lines;
}

std::vector<ScenarioResult>& Results() {
  static std::vector<ScenarioResult> results;
  return results;
}

class PrintTable : public ::testing::Environment {
 public:
  void TearDown() override {
    // By letter, whatever order the tests ran in.
    std::stable_sort(Results().begin(), Results().end(),
                     [](const ScenarioResult& a, const ScenarioResult& b) {
                       return a.letter < b.letter;
                     });
    const std::string table = ProofTable(Results());
    std::printf("\n%s\n", table.c_str());
    std::ofstream file(BuildDirectory() + "/test-results/proof.txt");
    file << table;
    EXPECT_TRUE(file.flush().good());
  }
};

const ::testing::Environment* const kPrintTable =
    ::testing::AddGlobalTestEnvironment(new PrintTable);

}  // namespace

std::string ProofTable(const std::vector<ScenarioResult>& results) {
  std::string table = Line("", "scenario", "what was broken",
                           {"runs", "requests", "rows", "verdict"}) +
                      Line("", "", "", {"", "sent", "want/seen", ""});
  absl::StrAppend(&table, std::string(109, '-'), "\n");
  int64_t holding = 0;
  for (const ScenarioResult& result : results) {
    absl::StrAppend(&table, Lines(result));
    holding += result.holds ? 1 : 0;
  }
  absl::StrAppend(&table, std::string(109, '-'), "\n ", holding, " of ",
                  results.size(),
                  " scenarios hold\n\n"
                  " requests: over HTTP, retries and polls included. rows: of "
                  "the ledger, all runs together.\n"
                  " m: a run is one restart; five fall into each round of 200 "
                  "checkouts.\n");
  return table;
}

void ReportScenario(ScenarioResult result) {
  Results().push_back(std::move(result));
}

}  // namespace dedupe::testing
