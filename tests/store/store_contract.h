// The contract of server/service/store.h as tests, for every implementation of
// it: each suite that derives from StoreContract is run once with the model in
// memory and once with PostgreSQL. What the rules mean stands in dedupe.proto.
//
// Time stands still but for Advance(). Each test has a client id of its own, so
// that tests may share a database.
#ifndef DEDUPE_TESTS_STORE_STORE_CONTRACT_H_
#define DEDUPE_TESTS_STORE_STORE_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/service/store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"
#include "tests/support/builders.h"

namespace dedupe::testing {

// A store and its clock.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  virtual Store& store() = 0;
  virtual absl::Time Now() const = 0;
  virtual void Advance(absl::Duration duration) = 0;
};

enum class StoreKind { kMemory, kPostgres };

class StoreContract : public ::testing::TestWithParam<StoreKind> {
 protected:
  StoreContract();

  absl::Time Now() const { return world_.Now(); }
  void Advance(absl::Duration duration) { world_.Advance(duration); }

  // Begins of this test's own client, by an attempt: the usual request, and
  // another one with the same key.
  BeginCommand By(const std::string& attempt_id,
                  const std::string& key = "k") const;
  BeginCommand OtherBy(const std::string& attempt_id) const;

  // The fence; a failure if it is not started.
  int64_t Start(const BeginCommand& begin);
  // Started by `first`, whose lease lapsed, then taken over by `second`.
  int64_t TakeOver(const BeginCommand& first, const BeginCommand& second);
  LookupAnswer Look(const BeginCommand& begin);

 private:
  StoreWorld& world_;

 protected:
  BlockingStore store_;

 private:
  const std::string client_id_;
};

std::string StoreKindName(const ::testing::TestParamInfo<StoreKind>& info);

}  // namespace dedupe::testing

// For each suite, once.
#define DEDUPE_CONTRACT_SUITE(suite)                               \
  INSTANTIATE_TEST_SUITE_P(                                        \
      Store, suite,                                                \
      ::testing::Values(StoreKind::kMemory, StoreKind::kPostgres), \
      StoreKindName)

#endif  // DEDUPE_TESTS_STORE_STORE_CONTRACT_H_
