// What batching is for: many callers share commits. And what it must not cost:
// the lone caller's time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/end_to_end/deployment.h"
#include "tests/support/load.h"

namespace dedupe::testing {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Sanitizers slow the server and not the database, which shifts every ratio.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kMeasures = false;
#else
constexpr bool kMeasures = true;
#endif

// Two servers on one database whose commits reach the disk, measured in turn so
// that whatever else the machine does meets both.
class BatchingTest : public ::testing::Test {
 protected:
  static PostgresCluster& Cluster() {
    static PostgresCluster cluster({.durable = true, .settings = {}});
    return cluster;
  }

  LoadResult Measure(const ServerProcess& server, int callers,
                     absl::Duration duration) {
    LoadResult result = RunPairs({.address = server.address(),
                                  .callers = callers,
                                  .channels = std::min(callers, 4),
                                  .warm_up = absl::Milliseconds(300),
                                  .duration = duration,
                                  .response_bytes = 256});
    EXPECT_EQ(result.failures, 0) << result.first_failure;
    return result;
  }

  Deployment batching_{{}, Cluster()};
  ServerProcess one_by_one_{{.database_url = batching_.server_url(),
                             .settings = {"--batch-max=1"},
                             .environment = {}}};
};

// The goal is three times as many; two leave room for a busy machine.
TEST_F(BatchingTest, ManyCallersShareCommits) {
  std::vector<double> with;
  std::vector<double> without;
  for (int round = 0; round < 3; ++round) {
    with.push_back(
        Measure(batching_.server(), 256, absl::Seconds(2)).pairs_per_second);
    without.push_back(
        Measure(one_by_one_, 256, absl::Seconds(2)).pairs_per_second);
    absl::PrintF("256 callers: %.0f pairs/s with batching, %.0f without\n",
                 with.back(), without.back());
  }
  const double ratio = Median(with) / Median(without);
  absl::PrintF("256 callers, medians: %.0f and %.0f pairs/s, %.2f times\n",
               Median(with), Median(without), ratio);
  if (kMeasures) {
    EXPECT_GE(ratio, 2.0);
  }
}

// No timer holds a call back in the hope of company: that would show in every
// round. What shows in some is the machine, so a quarter of the rounds decides.
TEST_F(BatchingTest, LoneCallerDoesNotPayForIt) {
  constexpr int kRounds = 9;
  std::vector<double> with;
  std::vector<double> without;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    with.push_back(absl::ToDoubleMilliseconds(
        Measure(batching_.server(), 1, absl::Milliseconds(500)).begin_p50));
    without.push_back(absl::ToDoubleMilliseconds(
        Measure(one_by_one_, 1, absl::Milliseconds(500)).begin_p50));
    ratios.push_back(with.back() / without.back());
  }
  std::sort(ratios.begin(), ratios.end());
  absl::PrintF(
      "one caller, median Begin: %.3f ms with batching, %.3f ms"
      " without; %.2f times, a quarter of the rounds below %.2f\n",
      Median(with), Median(without), ratios[kRounds / 2], ratios[kRounds / 4]);
  if (kMeasures) {
    EXPECT_LE(ratios[kRounds / 4], 1.3);
  }
}

}  // namespace
}  // namespace dedupe::testing
