// A database that goes away: stopped, frozen, or behind a pooler. Each has a
// PostgreSQL of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/postgres_store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"
#include "tests/store/session.h"
#include "tests/store/timed_calls.h"
#include "tests/support/builders.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"

namespace dedupe::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Each;

class OutageTest : public ::testing::Test {
 protected:
  OutageTest()
      : cluster_({}),
        database_(cluster_.CreateMigratedDatabase()),
        store_({.database_url = cluster_.Url(database_, "dedupe_server")}) {}

  BlockingStore calls() { return BlockingStore(store_); }

  // Until a Begin succeeds; how long that took.
  absl::Duration Recovery(const std::string& key) {
    const absl::Time start = absl::Now();
    while (absl::Now() < start + absl::Seconds(20)) {
      if (BlockingStore(store_, absl::Seconds(1))
              .Begin(MakeBegin(key, "a1"))
              .ok()) {
        break;
      }
    }
    return absl::Now() - start;
  }

  PostgresCluster cluster_;
  const std::string database_;
  PostgresStore store_;
};

TEST_F(OutageTest, QueuedCallsSurviveARestart) {
  ASSERT_THAT(calls().Begin(MakeBegin("before", "a1")), IsOk());
  cluster_.Stop("fast");
  TimedCalls queued;
  for (int i = 0; i < 50; ++i) {
    queued.Begin(store_, MakeBegin(absl::StrCat("k", i), "a1"),
                 absl::Seconds(10));
  }
  cluster_.Start();
  queued.Wait();
  EXPECT_THAT(queued.reasons(), Each(Reason::kUnknown));
  EXPECT_TRUE(Is<InProgress>(calls().Begin(MakeBegin("before", "a2"))));
}

TEST_F(OutageTest, CallsEndWhileTheDatabaseIsAway) {
  ASSERT_THAT(calls().Begin(MakeBegin("before", "a1")), IsOk());
  cluster_.Stop("immediate");
  TimedCalls hasty;
  TimedCalls patient;
  for (int i = 0; i < 20; ++i) {
    hasty.Begin(store_, MakeBegin(absl::StrCat("h", i), "a1"),
                absl::Milliseconds(50 * (i + 1)));
    patient.Begin(store_, MakeBegin(absl::StrCat("p", i), "a1"),
                  absl::Seconds(30));
  }
  hasty.Wait();
  EXPECT_LT(hasty.latest(), kLateness);
  EXPECT_THAT(hasty.reasons(),
              Each(AnyOf(Reason::kStoreDown, Reason::kDeadlineExceeded)));
  // Whoever has time is told after three seconds all the same,
  patient.Wait();
  EXPECT_THAT(patient.reasons(), Each(Reason::kStoreDown));
  EXPECT_GT(patient.longest(), absl::Seconds(2));
  EXPECT_LT(patient.longest(), absl::Seconds(5));
  // and whoever comes later at once.
  TimedCalls late;
  late.Begin(store_, MakeBegin("late", "a1"), absl::Seconds(30));
  late.Wait();
  EXPECT_LT(late.longest(), absl::Seconds(1));
  cluster_.Start();
  const absl::Duration recovery = Recovery("after");
  std::printf("recovered after %s\n", absl::FormatDuration(recovery).c_str());
  EXPECT_LT(recovery, absl::Seconds(5));
}

// The postmaster and all its children: a machine whose disk hangs.
class FrozenTest : public OutageTest {
 protected:
  ~FrozenTest() override { cluster_.SignalAll(SIGCONT); }
};

TEST_F(FrozenTest, CallsEndByTheirDeadline) {
  for (int i = 0; i < 8; ++i) {
    ASSERT_THAT(calls().Begin(MakeBegin(absl::StrCat("w", i), "a1")), IsOk());
  }
  cluster_.SignalAll(SIGSTOP);
  TimedCalls calls_in_flight;
  // In waves, so that some are sent, some are queued and some come when all
  // connections hang.
  for (int wave = 0; wave < 4; ++wave) {
    for (int i = 0; i < 20; ++i) {
      calls_in_flight.Begin(store_,
                            MakeBegin(absl::StrCat("k", wave, "-", i), "a1"),
                            absl::Milliseconds(200 + 100 * i));
    }
    absl::SleepFor(absl::Milliseconds(300));
  }
  calls_in_flight.Wait();
  std::printf("the latest came %s after its deadline\n",
              absl::FormatDuration(calls_in_flight.latest()).c_str());
  EXPECT_LT(calls_in_flight.latest(), kLateness);
  EXPECT_THAT(calls_in_flight.reasons(),
              Each(AnyOf(Reason::kStoreDown, Reason::kDeadlineExceeded)));
  cluster_.SignalAll(SIGCONT);
  const absl::Duration recovery = Recovery("after");
  std::printf("recovered after %s\n", absl::FormatDuration(recovery).c_str());
  EXPECT_LT(recovery, absl::Seconds(5));
  // Whatever was done for a call whose caller has gone, its repetition is the
  // same attempt's.
  for (int wave = 0; wave < 4; ++wave) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(Is<Started>(
          calls().Begin(MakeBegin(absl::StrCat("k", wave, "-", i), "a1"))));
    }
  }
}

TEST_F(FrozenTest, StopDoesNotWaitForTheDatabase) {
  ASSERT_THAT(calls().Begin(MakeBegin("k", "a1")), IsOk());
  cluster_.SignalAll(SIGSTOP);
  TimedCalls open;
  for (int i = 0; i < 20; ++i) {
    open.Begin(store_, MakeBegin(absl::StrCat("k", i), "a1"),
               absl::Seconds(30));
  }
  absl::SleepFor(absl::Milliseconds(100));
  const auto start = std::chrono::steady_clock::now();
  store_.Stop();
  EXPECT_EQ(open.open(), 0);
  EXPECT_THAT(open.reasons(), Each(Reason::kDraining));
  EXPECT_LT(absl::FromChrono(std::chrono::steady_clock::now() - start),
            absl::Seconds(5));
}

TEST(UnreachableTest, CallsAreToldInTime) {
  PostgresStore store({.database_url = "host=/nonexistent dbname=none"});
  TimedCalls calls;
  calls.Begin(store, MakeBegin("k", "a1"), absl::Milliseconds(500));
  calls.Begin(store, MakeBegin("k", "a2"), absl::Seconds(30));
  calls.Wait();
  EXPECT_THAT(calls.reasons(), Each(Reason::kStoreDown));
  EXPECT_LT(calls.longest(), absl::Seconds(5));
}

// pgbouncer in transaction mode hands each statement to whichever session is
// free: nothing may be left in one for the next.
class PoolerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasProgram("pgbouncer") && access("/usr/sbin/pgbouncer", X_OK) != 0) {
      GTEST_SKIP() << "pgbouncer is not installed";
    }
    PostgresCluster& cluster = PostgresCluster::Shared();
    database_ = cluster.CreateMigratedDatabase();
    const std::string directory = cluster.socket_directory() + "/pooler";
    std::filesystem::create_directory(directory);
    std::ofstream(directory + "/users") << "\"dedupe_server\" \"\"\n";
    std::ofstream(directory + "/pgbouncer.ini")
        << "[databases]\n* = host=" << cluster.socket_directory() << "\n"
        << "[pgbouncer]\npool_mode = transaction\ndefault_pool_size = 2\n"
        << "auth_type = trust\nauth_file = " << directory << "/users\n"
        << "listen_addr =\nunix_socket_dir = " << directory << "\n"
        << "listen_port = 6432\nmax_client_conn = 100\n"
        << "ignore_startup_parameters = extra_float_digits\n";
    std::vector<std::string> argv = {"pgbouncer", directory + "/pgbouncer.ini"};
    if (!HasProgram("pgbouncer")) argv[0] = "/usr/sbin/pgbouncer";
    if (geteuid() == 0) {
      const passwd* user = getpwnam("postgres");
      ASSERT_EQ(chown(directory.c_str(), user->pw_uid, user->pw_gid), 0);
      argv.insert(argv.begin(), {"runuser", "-u", "postgres", "--"});
    }
    pooler_ = std::make_unique<Process>(argv, Environment{},
                                        ScratchDirectory() + "/pgbouncer.log");
    ASSERT_TRUE(pooler_->WaitForOutput("process up")) << pooler_->Output();
    url_ = absl::StrCat("host=", directory, " port=6432 user=dedupe_server",
                        " dbname=", database_);
  }

  // runuser waits for its child, which a SIGKILL would leave alone.
  void TearDown() override {
    if (pooler_ == nullptr) return;
    pooler_->Signal(SIGTERM);
    pooler_->Wait();
  }

  std::string database_;
  std::string url_;
  std::unique_ptr<Process> pooler_;
};

TEST_F(PoolerTest, TransactionModeIsEnough) {
  PostgresStore store({.database_url = url_, .connections = 16});
  constexpr int kThreads = 32;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> completed{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      BlockingStore calls(store);
      for (int round = 0; round < 63; ++round) {
        const BeginCommand begin =
            MakeBegin(absl::StrCat("k", i, "-", round), "a1");
        const auto begun = calls.Begin(begin);
        ASSERT_TRUE(Is<Started>(begun)) << Describe(begun);
        const int64_t fence = Get<Started>(begun).fence;
        EXPECT_THAT(calls.Extend(MakeExtend(begin, fence)), IsOk());
        const auto answer = calls.Complete(MakeComplete(begin, fence));
        EXPECT_THAT(answer, IsOk());
        if (answer.ok()) ++completed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed, kThreads * 63);
  // Not more than two sessions did all that.
  EXPECT_LE(
      std::stoi(SqlValue(PostgresCluster::Shared().Url(database_),
                         "SELECT count(*) FROM pg_stat_activity WHERE usename ="
                         " 'dedupe_server' AND datname = current_database()")),
      2);
}

// A role's default that the store has to work around with a transaction of its
// own making, which must not be spread over two sessions.
TEST_F(PoolerTest, IsolationIsSetForEachTransaction) {
  Sql(PostgresCluster::Shared().Url(database_),
      absl::StrCat("ALTER ROLE dedupe_server IN DATABASE ", database_,
                   " SET default_transaction_isolation = 'serializable'"));
  PostgresStore store({.database_url = url_, .connections = 8});
  constexpr int kThreads = 32;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> started{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const auto answer = BlockingStore(store).Begin(
            MakeBegin(absl::StrCat("k", round), absl::StrCat("a", i)));
        EXPECT_THAT(answer, IsOk());
        if (Is<Started>(answer)) ++started;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(started, 10);
}

}  // namespace
}  // namespace dedupe::testing
