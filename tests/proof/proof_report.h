// What the proof has shown, as a table: printed when the program ends, and
// written to test-results/proof.txt of the build directory.
#ifndef DEDUPE_TESTS_PROOF_PROOF_REPORT_H_
#define DEDUPE_TESTS_PROOF_PROOF_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace dedupe::testing {

struct ScenarioResult {
  std::string letter;
  std::string name;
  // What was broken, and how.
  std::string broken;
  int64_t runs = 0;
  int64_t requests = 0;
  int64_t rows_expected = 0;
  int64_t rows_seen = 0;
  bool holds = false;
};

// No line is longer than 110 columns: longer texts are wrapped.
std::string ProofTable(const std::vector<ScenarioResult>& results);

// Adds a line to the table that is printed in the end. Called by one thread.
void ReportScenario(ScenarioResult result);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_PROOF_PROOF_REPORT_H_
