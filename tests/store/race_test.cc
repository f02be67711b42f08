// Callers that come at the same moment, through two servers' stores: of all
// that may win, one does, and all are told the truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/postgres_store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"
#include "tests/store/session.h"
#include "tests/support/builders.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

using Answer = absl::StatusOr<BeginAnswer>;

// Two stores on one database, as of two servers.
class Servers {
 public:
  explicit Servers(const std::string& url) {
    for (auto& store : stores_) {
      store = std::make_unique<PostgresStore>(
          PostgresStoreOptions{.database_url = url});
    }
  }

  // The callers are spread over both.
  BlockingStore Of(int caller) {
    return BlockingStore(store(caller), absl::Seconds(30));
  }
  PostgresStore& store(int caller) {
    return *stores_[static_cast<size_t>(caller) % 2];
  }

 private:
  std::unique_ptr<PostgresStore> stores_[2];
};

// Every caller's answer for every key. All callers are released together for
// each key.
template <typename Result>
std::vector<std::vector<Result>> Race(
    int keys, int callers, const std::function<Result(int, int)>& call) {
  std::vector<std::vector<Result>> results(
      static_cast<size_t>(keys),
      std::vector<Result>(static_cast<size_t>(callers),
                          Result(absl::UnknownError("not called"))));
  std::barrier barrier(callers);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(callers));
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      for (int key = 0; key < keys; ++key) {
        barrier.arrive_and_wait();
        results[static_cast<size_t>(key)][static_cast<size_t>(caller)] =
            call(key, caller);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

template <typename Outcome>
int64_t Count(const std::vector<Answer>& answers) {
  return std::count_if(answers.begin(), answers.end(), Is<Outcome>);
}

std::string AllOf(const std::vector<Answer>& answers) {
  std::string text;
  for (const Answer& answer : answers) {
    absl::StrAppend(&text, Describe(answer), "\n");
  }
  return text;
}

class RaceTest : public ::testing::Test {
 protected:
  RaceTest()
      : database_(PostgresCluster::Shared().CreateMigratedDatabase()),
        admin_url_(PostgresCluster::Shared().Url(database_)),
        url_(PostgresCluster::Shared().Url(database_, "dedupe_server")) {}

  static std::string Key(int number) { return absl::StrCat("k", number); }
  static std::string Attempt(int number) { return absl::StrCat("a", number); }

  // As many keys, begun by attempt "a", whose leases have lapsed. The fences.
  std::vector<int64_t> LapsedKeys(Servers& servers, int keys) {
    std::vector<int64_t> fences;
    for (int key = 0; key < keys; ++key) {
      BeginCommand begin = MakeBegin(Key(key), "a");
      begin.lease = absl::Milliseconds(100);
      fences.push_back(
          Get<Started>(servers.Of(0).Begin(std::move(begin))).fence);
    }
    Session admin(admin_url_);
    while (admin.Value("SELECT max(lease_expires_at) <= clock_timestamp()"
                       " FROM dedupe.record") == "f") {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return fences;
  }

  std::string Rows() const {
    return SqlValue(admin_url_, "SELECT count(*) FROM dedupe.record");
  }

  void ExpectOneStartedPerKey(int keys, int callers) {
    Servers servers(url_);
    const auto answers = Race<Answer>(keys, callers, [&](int key, int caller) {
      return servers.Of(caller).Begin(MakeBegin(Key(key), Attempt(caller)));
    });
    for (const auto& of_key : answers) {
      EXPECT_EQ(Count<Started>(of_key), 1) << AllOf(of_key);
      EXPECT_EQ(Count<InProgress>(of_key), callers - 1) << AllOf(of_key);
    }
    EXPECT_EQ(Rows(), absl::StrCat(keys));
  }

  void ExpectOneTakeoverPerKey(int keys, int callers) {
    Servers servers(url_);
    const std::vector<int64_t> fences = LapsedKeys(servers, keys);
    const auto answers = Race<Answer>(keys, callers, [&](int key, int caller) {
      return servers.Of(caller).Begin(MakeBegin(Key(key), Attempt(caller)));
    });
    for (size_t key = 0; key < answers.size(); ++key) {
      const auto& of_key = answers[key];
      ASSERT_EQ(Count<Started>(of_key), 1) << AllOf(of_key);
      EXPECT_EQ(Count<InProgress>(of_key), callers - 1) << AllOf(of_key);
      const auto winner =
          std::find_if(of_key.begin(), of_key.end(), Is<Started>);
      const Started started = Get<Started>(*winner);
      EXPECT_TRUE(started.taken_over);
      EXPECT_EQ(started.attempt_number, 2);
      EXPECT_GT(started.fence, fences[key]);
    }
  }

  // Each caller brings a response of its own, in the same holder's name.
  void ExpectOneResponsePerKey(int keys, int callers) {
    Servers servers(url_);
    const std::vector<int64_t> fences = LapsedKeys(servers, keys);
    using Completed = absl::StatusOr<CompleteAnswer>;
    const auto answers =
        Race<Completed>(keys, callers, [&](int key, int caller) {
          return servers.Of(caller).Complete(MakeComplete(
              MakeBegin(Key(key), "a"), fences[static_cast<size_t>(key)],
              absl::StrCat("body of ", caller)));
        });
    for (int key = 0; key < keys; ++key) {
      int winner = -1;
      for (int caller = 0; caller < callers; ++caller) {
        const Completed& answer =
            answers[static_cast<size_t>(key)][static_cast<size_t>(caller)];
        if (answer.ok()) {
          EXPECT_EQ(winner, -1) << "two responses were stored";
          winner = caller;
        } else {
          EXPECT_THAT(answer, RefusedAs(Reason::kResponseConflict));
        }
      }
      const auto stored = servers.Of(0).Lookup({kClient, Key(key)});
      EXPECT_EQ(stored->response->body, absl::StrCat("body of ", winner));
    }
  }

  const std::string database_;
  const std::string admin_url_;
  const std::string url_;
};

TEST_F(RaceTest, OneOfManyCallersIsStarted) { ExpectOneStartedPerKey(200, 64); }

TEST_F(RaceTest, OneOfManyTakesOver) { ExpectOneTakeoverPerKey(50, 16); }

TEST_F(RaceTest, OneOfManyResponsesIsStored) {
  ExpectOneResponsePerKey(50, 16);
}

TEST_F(RaceTest, SameAttemptIsNeverLockedOutByItself) {
  constexpr int kKeys = 500;
  Servers servers(url_);
  const auto answers = Race<Answer>(kKeys, 5, [&](int key, int caller) {
    return servers.Of(caller).Begin(MakeBegin(Key(key), "a1"));
  });
  for (const auto& of_key : answers) {
    EXPECT_EQ(Count<Started>(of_key), 5) << AllOf(of_key);
    std::set<int64_t> fences;
    int first_times = 0;
    for (const Answer& answer : of_key) {
      const Started started = Get<Started>(answer);
      fences.insert(started.fence);
      if (!started.resumed) ++first_times;
    }
    EXPECT_EQ(fences.size(), 1) << AllOf(of_key);
    EXPECT_EQ(first_times, 1) << AllOf(of_key);
  }
  EXPECT_EQ(Rows(), absl::StrCat(kKeys));
}

TEST_F(RaceTest, OneOfManyGetsAReleasedKey) {
  constexpr int kKeys = 50;
  constexpr int kCallers = 16;
  Servers servers(url_);
  const std::vector<int64_t> fences = LapsedKeys(servers, kKeys);
  for (int key = 0; key < kKeys; ++key) {
    ASSERT_THAT(
        servers.Of(0).Release(MakeRelease(MakeBegin(Key(key), "a"),
                                          fences[static_cast<size_t>(key)])),
        IsOk());
  }
  const auto answers = Race<Answer>(kKeys, kCallers, [&](int key, int caller) {
    return servers.Of(caller).Begin(MakeBegin(Key(key), Attempt(caller)));
  });
  for (const auto& of_key : answers) {
    EXPECT_EQ(Count<Started>(of_key), 1) << AllOf(of_key);
    EXPECT_EQ(Count<InProgress>(of_key), kCallers - 1) << AllOf(of_key);
  }
}

// Either the holder completes and the other is handed the response, or the
// other takes over and the holder is told so.
TEST_F(RaceTest, LateCompletionAndTakeoverExcludeEachOther) {
  constexpr int kKeys = 200;
  Servers servers(url_);
  const std::vector<int64_t> fences = LapsedKeys(servers, kKeys);
  std::vector<absl::StatusOr<CompleteAnswer>> completed(
      kKeys, absl::UnknownError("not called"));
  const auto answers = Race<Answer>(kKeys, 2, [&](int key, int caller) {
    if (caller == 1) {
      return servers.Of(caller).Begin(MakeBegin(Key(key), "b"));
    }
    const auto index = static_cast<size_t>(key);
    completed[index] = servers.Of(caller).Complete(
        MakeComplete(MakeBegin(Key(key), "a"), fences[index]));
    return Answer(absl::UnknownError("see completed"));
  });
  int completions = 0;
  for (size_t key = 0; key < kKeys; ++key) {
    if (completed[key].ok()) {
      ++completions;
      EXPECT_TRUE(Is<Replay>(answers[key][1])) << Describe(answers[key][1]);
    } else {
      EXPECT_THAT(completed[key], RefusedAs(Reason::kLeaseLost));
      EXPECT_TRUE(Get<Started>(answers[key][1]).taken_over);
    }
  }
  std::printf("completions %d, takeovers %d\n", completions,
              kKeys - completions);
}

// Whatever isolation level an administrator has made the default.
class IsolationTest : public RaceTest,
                      public ::testing::WithParamInterface<const char*> {
 protected:
  IsolationTest() {
    Sql(admin_url_,
        absl::StrCat("ALTER ROLE dedupe_server IN DATABASE ", database_,
                     " SET default_transaction_isolation = '", GetParam(),
                     "'"));
  }
};

TEST_P(IsolationTest, OneOfManyCallersIsStarted) {
  ExpectOneStartedPerKey(20, 64);
}

TEST_P(IsolationTest, OneOfManyTakesOver) { ExpectOneTakeoverPerKey(20, 16); }

TEST_P(IsolationTest, OneOfManyResponsesIsStored) {
  ExpectOneResponsePerKey(20, 16);
}

INSTANTIATE_TEST_SUITE_P(Levels, IsolationTest,
                         ::testing::Values("serializable", "repeatable read"),
                         [](const auto& level) {
                           return level.param[0] == 's' ? "Serializable"
                                                        : "RepeatableRead";
                         });

// Many rows are locked by each of two batches at a time.
class DeadlockTest : public RaceTest {
 protected:
  DeadlockTest() {
    // Long before the functions' lock timeouts, which would end a deadlock
    // before PostgreSQL has seen that it is one.
    Sql(admin_url_, absl::StrCat("ALTER DATABASE ", database_,
                                 " SET deadlock_timeout = '5ms'"));
  }

  int64_t Deadlocks() {
    Session admin(admin_url_);
    admin.Run("SELECT pg_stat_force_next_flush()");
    // Of the sessions that have ended: each reports when it goes.
    return std::stoll(
        admin.Value("SELECT deadlocks FROM pg_stat_database WHERE datname ="
                    " current_database()"));
  }

  static constexpr int kBatch = 50;
};

TEST_F(DeadlockTest, ReversedBatchesOfTwoServersDoNotDeadlock) {
  constexpr int kRounds = 300;
  Servers servers(url_);
  const auto play = [&](int caller) {
    for (int round = 0; round < kRounds; ++round) {
      absl::BlockingCounter open(kBatch);
      for (int i = 0; i < kBatch; ++i) {
        const int key = caller == 0 ? i : kBatch - 1 - i;
        // The same attempt's: each renews the lease, which is an UPDATE.
        servers.store(caller).Begin(
            MakeBegin(Key(key), "a"), Within(absl::Seconds(30)),
            [&open](const Answer& answer) {
              EXPECT_TRUE(Is<Started>(answer)) << Describe(answer);
              open.DecrementCount();
            });
      }
      open.Wait();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  servers.store(0).Stop();
  servers.store(1).Stop();
  EXPECT_EQ(Deadlocks(), 0);
}

// The control: without the order, the same calls do deadlock.
TEST_F(DeadlockTest, UnsortedArraysWouldDeadlock) {
  constexpr int kRounds = 200;
  const auto play = [&](const std::string& order) {
    Session session(url_);
    const std::string call = absl::StrCat(
        "SELECT count(*) FROM dedupe.begin_batch("
        "array_fill('acme'::text, ARRAY[50]),"
        "ARRAY(SELECT 'k' || i FROM generate_series(1, 50) AS i ORDER BY i ",
        order,
        "), array_fill(''::text, ARRAY[50]),"
        "array_fill('\\x01'::bytea, ARRAY[50]),"
        "array_fill('a'::text, ARRAY[50]),"
        "array_fill(NULL::bigint, ARRAY[50]),"
        "array_fill(NULL::bigint, ARRAY[50]),"
        "array_fill(NULL::dedupe.lease_policy, ARRAY[50]))");
    for (int round = 0; round < kRounds; ++round) session.Run(call);
  };
  std::thread other([&] { play("ASC"); });
  play("DESC");
  other.join();
  EXPECT_GT(Deadlocks(), 0);
}

TEST_F(DeadlockTest, DeadlockMadeByAnotherIsNotShown) {
  // Its victim is whoever looks first: the server, not the intruder. Time for
  // this test to make the deadlock.
  Sql(admin_url_, absl::StrCat("ALTER DATABASE ", database_,
                               " SET deadlock_timeout = '2s'"));
  Sql(admin_url_,
      "ALTER FUNCTION dedupe.complete_batch(text[], text[], text[], bigint[],"
      " integer[], jsonb[], bytea[]) SET lock_timeout = '20s'");
  PostgresStore store({.database_url = url_,
                       .connections = 1,
                       .statement_timeout = absl::Seconds(30)});
  BlockingStore calls(store);
  std::vector<int64_t> fences;
  for (int key = 0; key < 3; ++key) {
    fences.push_back(Get<Started>(calls.Begin(MakeBegin(Key(key), "a"))).fence);
  }
  const auto lock = [](int key) {
    return absl::StrCat("SELECT FROM dedupe.record WHERE key = 'k", key,
                        "' FOR UPDATE");
  };
  const auto wait_for_waiter = [&] {
    Session admin(admin_url_);
    while (admin.Value("SELECT count(*) FROM pg_stat_activity WHERE"
                       " wait_event_type = 'Lock' AND usename ="
                       " 'dedupe_server'") == "0") {
      absl::SleepFor(absl::Milliseconds(1));
    }
  };
  Session blocker(admin_url_);
  blocker.Run("BEGIN; " + lock(0));
  Session intruder(admin_url_);
  intruder.Run("SET deadlock_timeout = '1min'; BEGIN; " + lock(2));

  absl::BlockingCounter open(3);
  const auto done = [&open](const absl::StatusOr<CompleteAnswer>& answer) {
    EXPECT_THAT(answer, IsOk());
    open.DecrementCount();
  };
  const auto complete = [&](int key) {
    store.Complete(MakeComplete(MakeBegin(Key(key), "a"),
                                fences[static_cast<size_t>(key)]),
                   Within(absl::Seconds(20)), done);
  };
  // The first occupies the only connection, so that the others go together.
  complete(0);
  wait_for_waiter();
  complete(1);
  complete(2);
  blocker.Run("COMMIT");
  Session admin(admin_url_);
  while (admin.Value("SELECT state FROM dedupe.lookup('acme', 'k0')") !=
         "completed") {
    absl::SleepFor(absl::Milliseconds(1));
  }
  wait_for_waiter();
  // Returns once the server has given way.
  EXPECT_EQ(intruder.Run(lock(1)).sqlstate, "");
  intruder.Run("COMMIT");
  open.Wait();
  store.Stop();
  EXPECT_EQ(Deadlocks(), 1);
}

}  // namespace
}  // namespace dedupe::testing
