// The model in memory and the SQL are two implementations of one contract, made
// apart: a long run of random calls must not tell them apart. DEDUPE_SEED
// repeats a run, DEDUPE_OPERATIONS makes it longer or shorter.
#include "tests/store/differential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "server/store/postgres_store.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

constexpr int64_t kOperations = 300'000;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// What a run has to have met, or its agreement proves little.
constexpr const char* kKinds[] = {
    "Begin: started",
    "Begin: started, resumed",
    "Begin: started, taken over",
    "Begin: started, resumed, taken over",
    "Begin: replay of ",
    "Begin: in progress since ",
    "Begin: mismatch",
    "Begin: in doubt since ",
    "Begin: refused: ATTEMPT_FINISHED",
    "Complete: completed at ",
    "Complete: already completed at ",
    "Complete: refused: KEY_UNKNOWN",
    "Complete: refused: LEASE_LOST",
    "Complete: refused: RESPONSE_CONFLICT",
    "Extend: extended to ",
    "Extend: refused: ALREADY_COMPLETED",
    "Extend: refused: KEY_UNKNOWN",
    "Extend: refused: LEASE_LOST",
    "Release: released",
    "Release: refused: ALREADY_COMPLETED",
    "Release: refused: KEY_UNKNOWN",
    "Release: refused: LEASE_LOST",
    "Lookup: absent",
    "Lookup: in progress",
    "Lookup: released",
    "Lookup: in doubt",
    "Lookup: completed",
    "Watch: completed",
};

TEST(DifferentialTest, ModelAndPostgresAgree) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const std::string database = cluster.CreateMigratedDatabase();
  TestClock clock(cluster.Url(database), absl::FromUnixSeconds(1'700'000'000));
  PostgresStoreOptions store_options;
  store_options.database_url = cluster.Url(database, "dedupe_server");
  store_options.connections = 3;
  store_options.batch_calls_max = 16;
  PostgresStore store(store_options);
  Differential differential(store, clock);

  Differential::Options options;
  options.seed = static_cast<uint64_t>(
      FromEnvironment("DEDUPE_SEED", std::random_device()()));
  options.operations = FromEnvironment("DEDUPE_OPERATIONS", kOperations);
  std::printf("DEDUPE_SEED=%llu DEDUPE_OPERATIONS=%lld\n",
              static_cast<unsigned long long>(options.seed),
              static_cast<long long>(options.operations));
  const auto difference = differential.Run(options);
  EXPECT_FALSE(difference.has_value()) << *difference;

  for (const auto& [kind, count] : differential.seen()) {
    std::printf("%8lld  %s\n", static_cast<long long>(count), kind.c_str());
  }
  for (const char* kind : kKinds) {
    const auto seen = differential.seen().find(kind);
    const int64_t count = seen == differential.seen().end() ? 0 : seen->second;
    EXPECT_GE(count, options.operations / 10'000) << kind;
  }
}

}  // namespace
}  // namespace dedupe::testing
