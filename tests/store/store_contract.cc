#include "tests/store/store_contract.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "server/store/postgres_store.h"
#include "tests/support/memory_store.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/test_clock.h"

namespace dedupe::testing {
namespace {

// Some moment with microseconds, so that rounding would show.
absl::Time Start() { return absl::FromUnixMicros(1'700'000'000'123'457); }

class MemoryWorld final : public StoreWorld {
 public:
  MemoryWorld() : store_([this] { return now_; }) {}

  Store& store() override { return store_; }
  absl::Time Now() const override { return now_; }
  void Advance(absl::Duration duration) override { now_ += duration; }

 private:
  absl::Time now_ = dedupe::testing::Start();
  MemoryStore store_;
};

class PostgresWorld final : public StoreWorld {
 public:
  PostgresWorld()
      : cluster_(PostgresCluster::Shared()),
        database_(cluster_.CreateMigratedDatabase()),
        clock_(cluster_.Url(database_), dedupe::testing::Start()),
        store_(Options(cluster_.Url(database_, "dedupe_server"))) {}

  Store& store() override { return store_; }
  absl::Time Now() const override { return clock_.Now(); }
  void Advance(absl::Duration duration) override { clock_.Advance(duration); }

 private:
  static PostgresStoreOptions Options(std::string url) {
    PostgresStoreOptions options;
    options.database_url = std::move(url);
    options.connections = 2;
    return options;
  }

  PostgresCluster& cluster_;
  const std::string database_;
  TestClock clock_;
  PostgresStore store_;
};

// One for all tests: a database takes a second to make.
StoreWorld& WorldOf(StoreKind kind) {
  if (kind == StoreKind::kMemory) {
    static MemoryWorld memory;
    return memory;
  }
  static PostgresWorld postgres;
  return postgres;
}

std::string NewClientId() {
  static std::atomic<int> count{0};
  return absl::StrCat("client-", ++count);
}

}  // namespace

StoreContract::StoreContract()
    : world_(WorldOf(GetParam())),
      store_(world_.store()),
      client_id_(NewClientId()) {}

BeginCommand StoreContract::By(const std::string& attempt_id,
                               const std::string& key) const {
  BeginCommand begin = MakeBegin(key, attempt_id);
  begin.id.client_id = client_id_;
  return begin;
}

BeginCommand StoreContract::OtherBy(const std::string& attempt_id) const {
  BeginCommand begin = By(attempt_id);
  begin.fingerprint = FingerprintOf("another");
  return begin;
}

int64_t StoreContract::Start(const BeginCommand& begin) {
  return Get<Started>(store_.Begin(begin)).fence;
}

int64_t StoreContract::TakeOver(const BeginCommand& first,
                                const BeginCommand& second) {
  Start(first);
  Advance(first.lease.value_or(absl::Seconds(30)));
  const Started started = Get<Started>(store_.Begin(second));
  EXPECT_TRUE(started.taken_over);
  return started.fence;
}

LookupAnswer StoreContract::Look(const BeginCommand& begin) {
  const auto answer = store_.Lookup(begin.id);
  EXPECT_THAT(answer, IsOk());
  return answer.ok() ? *answer : LookupAnswer();
}

std::string StoreKindName(const ::testing::TestParamInfo<StoreKind>& info) {
  return info.param == StoreKind::kMemory ? "Memory" : "Postgres";
}

}  // namespace dedupe::testing
