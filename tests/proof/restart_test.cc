// dedupe goes away in the middle of many checkouts, and comes back: its server,
// or the PostgreSQL below it, which is not the ledger's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "dedupe/key.h"
#include "tests/proof/proof_test.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

using ::testing::AnyOf;

constexpr int kClients = 20;
constexpr int kRounds = 5;
constexpr int kCheckoutsInRound = 200;
// The n-th restart of a round comes when n times so many are done.
constexpr int kCheckoutsBetween = 30;
constexpr int kRestartsInRound = 5;
constexpr absl::Duration kLimit = absl::Seconds(60);
constexpr char kName[] =
    "20 clients, 5 restarts in each 200 checkouts: all end with 201";

// A crash of this PostgreSQL is the fault, so it syncs what it says it keeps.
// Its recovery begins with a sync of all its files, which takes seconds if they
// are opened one by one.
struct OwnDedupe {
  PostgresCluster cluster{
      {.durable = true, .settings = {"recovery_init_sync_method = syncfs"}}};
  ServerProcess server{{
      .database_url =
          cluster.Url(cluster.CreateMigratedDatabase(), "dedupe_server"),
      .settings = {},
      // libpqxx 6.4 loses a result with each connection that is lost in the
      // middle of a statement.
      .environment = {{"ASAN_OPTIONS", "detect_leaks=0"}},
  }};
};

class RestartProof : public ProofTest {
 protected:
  PaymentsOptions OnOwnDedupe() {
    PaymentsOptions own = options();
    own.dedupe_target = dedupe_.server.address();
    // If a Begin is given up on after it was recorded, its key is free again
    // after that.
    own.lease = "2s";
    return own;
  }

  // Asks, under one key, until it is done.
  void CheckOut() {
    const ChargeRequest charge = ChargeOf(client::NewKey());
    const absl::Time until = absl::Now() + kLimit;
    ChargeReply reply = Post(payments_.port(), charge);
    while (reply.status != 201 && absl::Now() < until) {
      // What says: ask again with the same key.
      EXPECT_THAT(reply.status, AnyOf(0, 409, 503))
          << ::testing::PrintToString(reply);
      absl::SleepFor(absl::Milliseconds(50));
      reply = Post(payments_.port(), charge);
    }
    EXPECT_EQ(reply.status, 201) << ::testing::PrintToString(reply);
    absl::MutexLock lock(&mutex_);
    charge_ids_.push_back(ChargeIdOf(reply.body));
  }

  // In the middle of checkouts. A run is one restart.
  void RestartAgainAndAgain(const std::function<void(int)>& restart) {
    ExpectRows(kRounds * kCheckoutsInRound);
    for (int round = 0; round < kRounds; ++round) {
      std::thread checkouts([this] {
        RunInLanes(kClients, kCheckoutsInRound,
                   [this](int, int) { CheckOut(); });
      });
      for (int n = 1; n <= kRestartsInRound; ++n) {
        AwaitDone(round * kCheckoutsInRound + n * kCheckoutsBetween);
        EXPECT_LT(Done(), (round + 1) * kCheckoutsInRound);
        restart(n);
        CountRun();
      }
      checkouts.join();
    }
    // Every client was told of a charge that is there, each of another one.
    absl::MutexLock lock(&mutex_);
    std::sort(charge_ids_.begin(), charge_ids_.end());
    EXPECT_EQ(charge_ids_, ledger().ChargeIds());
  }

  OwnDedupe dedupe_;
  PaymentsServer payments_{OnOwnDedupe()};

 private:
  int Done() {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(charge_ids_.size());
  }
  void AwaitDone(int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return static_cast<int>(charge_ids_.size()) >= count;
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kLimit));
  }

  absl::Mutex mutex_;
  // As the clients heard them.
  std::vector<std::string> charge_ids_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(RestartProof, ServerKilledUnderCheckoutsIsInvisible) {
  Describe("m", kName, "dedupe server SIGKILLed and started anew");
  RestartAgainAndAgain([&](int) { dedupe_.server.Restart(); });
}

TEST_F(RestartProof, PostgresRestartedUnderCheckoutsIsInvisible) {
  Describe("m", kName,
           "dedupe's PostgreSQL restarted: fast, immediate, SIGKILL in turn");
  RestartAgainAndAgain([&](int n) {
    if (n % 3 == 0) dedupe_.cluster.Stop("fast");
    if (n % 3 == 1) dedupe_.cluster.Stop("immediate");
    if (n % 3 == 2) dedupe_.cluster.KillAll();
    dedupe_.cluster.Start();
  });
}

}  // namespace
}  // namespace dedupe::testing
