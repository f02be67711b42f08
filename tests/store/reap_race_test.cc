// Records that expire and are swept under the feet of those who use them: every
// answer must still be true, which is judged from all answers together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
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

constexpr int kKeys = 5;
constexpr int kCallers = 6;
// Long enough for hundreds of records of each key.
constexpr absl::Duration kDuration = absl::Seconds(6);
constexpr absl::Duration kShortest = absl::Milliseconds(100);

// What the callers saw of one key.
struct History {
  struct Begun {
    BeginCommand command;
    BeginAnswer answer;
  };
  struct Settled {
    CompleteCommand command;
    absl::Time lease_expires_at;
    absl::Time returned_at;
    absl::StatusOr<CompleteAnswer> answer;
  };
  std::vector<Begun> begun;
  std::vector<Settled> settled;
};

class ReapRaceTest : public ::testing::Test {
 protected:
  ReapRaceTest()
      : database_(PostgresCluster::Shared().CreateMigratedDatabase()),
        admin_url_(PostgresCluster::Shared().Url(database_)),
        store_({.database_url = PostgresCluster::Shared().Url(
                    database_, "dedupe_server")}) {}

  // Within its lease, as a rule; past it; or just past the whole record.
  static absl::Duration SomeWork(std::mt19937& random) {
    switch (random() % 4) {
      case 0:
        return 2 * kShortest + absl::Milliseconds(5);
      case 1:
        return kShortest + absl::Milliseconds(10);
      default:
        return absl::Milliseconds(random() % 20);
    }
  }

  // Begins and completes at random until told to stop.
  void Call(int caller) {
    std::mt19937 random(static_cast<unsigned>(caller));
    BlockingStore store(store_);
    for (int round = 0; !stop_; ++round) {
      const size_t key = random() % kKeys;
      BeginCommand begin = MakeBegin(absl::StrCat("k", key),
                                     absl::StrCat("a", caller, "-", round));
      begin.lease = kShortest;
      begin.ttl = kShortest;
      if (random() % 4 == 0) begin.fingerprint = FingerprintOf("two");
      const auto answer = store.Begin(begin);
      ASSERT_THAT(answer, IsOk());
      Note<History::Begun>(key, &History::begun, {begin, *answer});
      if (!Is<Started>(answer)) {
        absl::SleepFor(absl::Milliseconds(random() % 40));
        continue;
      }
      absl::SleepFor(SomeWork(random));
      const Started started = Get<Started>(answer);
      const CompleteCommand complete =
          MakeComplete(begin, started.fence,
                       absl::StrCat(begin.attempt_id, " ", started.fence));
      const auto completed = store.Complete(complete);
      Note<History::Settled>(
          key, &History::settled,
          {complete, started.lease_expires_at, absl::Now(), completed});
    }
  }

  // When to look at a row is a guess, which is made as bad as can be here: the
  // moment it expires, when others are about to use it again.
  void Sweep() {
    BlockingStore store(store_);
    Session admin(admin_url_);
    while (!stop_) {
      admin.Run(
          "UPDATE dedupe.record SET reap_after = now() - interval '1 s'"
          " WHERE expires_at <= clock_timestamp()");
      const auto answer = store.Reap({.row_limit = 3, .latest = std::nullopt});
      ASSERT_THAT(answer, IsOk());
      deleted_ += answer->deleted;
    }
  }

  template <typename Entry>
  void Note(size_t key, std::vector<Entry> History::*list, Entry entry) {
    absl::MutexLock lock(&mutex_);
    (histories_[key].*list).push_back(std::move(entry));
  }

  const std::string database_;
  const std::string admin_url_;
  PostgresStore store_;
  std::atomic<bool> stop_{false};
  std::atomic<int> deleted_{0};
  absl::Mutex mutex_;
  History histories_[kKeys];
};

// Fences in the order of decision; no two holders have the same.
void CheckFences(const History& history) {
  std::map<absl::Time, int64_t> starts;
  for (const auto& [command, answer] : history.begun) {
    const auto* started = std::get_if<Started>(&answer.outcome);
    if (started == nullptr) continue;
    EXPECT_FALSE(started->resumed);
    EXPECT_TRUE(starts.emplace(answer.decided_at, started->fence).second);
  }
  int64_t last = 0;
  for (const auto& [decided_at, fence] : starts) {
    EXPECT_GT(fence, last);
    last = fence;
  }
}

// The Begin that was started at this very moment.
const History::Begun* StartedAt(const History& history, absl::Time time) {
  for (const History::Begun& begun : history.begun) {
    if (begun.answer.decided_at == time &&
        std::holds_alternative<Started>(begun.answer.outcome)) {
      return &begun;
    }
  }
  return nullptr;
}

void CheckReplay(const History& history, const History::Begun& begun,
                 const Replay& replay) {
  EXPECT_LT(begun.answer.decided_at, replay.expires_at);
  EXPECT_EQ(replay.expires_at, replay.completed_at + kShortest);
  const auto source = std::find_if(
      history.settled.begin(), history.settled.end(),
      [&](const History::Settled& settled) {
        return settled.answer.ok() &&
               settled.answer->completed_at == replay.completed_at &&
               settled.command.response == replay.response;
      });
  ASSERT_NE(source, history.settled.end()) << Describe(begun.answer);
  // Of the same request.
  for (const History::Begun& other : history.begun) {
    if (other.command.attempt_id == source->command.holder.attempt_id) {
      EXPECT_EQ(other.command.fingerprint, begun.command.fingerprint);
    }
  }
}

void CheckBegins(const History& history, std::map<std::string, int>& seen) {
  for (const History::Begun& begun : history.begun) {
    const BeginAnswer& answer = begun.answer;
    if (const auto* replay = std::get_if<Replay>(&answer.outcome)) {
      ++seen["replay"];
      CheckReplay(history, begun, *replay);
    } else if (const auto* running = std::get_if<InProgress>(&answer.outcome)) {
      ++seen["in progress"];
      EXPECT_LT(answer.decided_at, running->lease_expires_at);
      const History::Begun* holder = StartedAt(history, running->started_at);
      ASSERT_NE(holder, nullptr) << Describe(answer);
      EXPECT_EQ(holder->command.fingerprint, begun.command.fingerprint);
    } else if (const auto* mismatch = std::get_if<Mismatch>(&answer.outcome)) {
      ++seen["mismatch"];
      const History::Begun* first = StartedAt(history, mismatch->first_seen_at);
      ASSERT_NE(first, nullptr) << Describe(answer);
      EXPECT_NE(first->command.fingerprint, begun.command.fingerprint);
    } else {
      ++seen[Get<Started>(answer).taken_over ? "taken over" : "started"];
    }
  }
}

void CheckCompletions(const History& history,
                      std::map<std::string, int>& seen) {
  for (const History::Settled& settled : history.settled) {
    if (settled.answer.ok()) {
      ++seen["completed"];
      continue;
    }
    ++seen[DescribeRefusal(settled.answer.status())];
    if (ReasonOf(settled.answer.status()) == Reason::kKeyUnknown) {
      // The clock is the database's too, being on the same machine.
      EXPECT_GE(settled.returned_at, settled.lease_expires_at + kShortest);
      continue;
    }
    EXPECT_THAT(settled.answer, RefusedAs(Reason::kLeaseLost));
    const auto& starts = history.begun;
    EXPECT_TRUE(std::any_of(starts.begin(), starts.end(), [&](const auto& b) {
      const auto* started = std::get_if<Started>(&b.answer.outcome);
      return started != nullptr &&
             started->fence > settled.command.holder.fence;
    })) << "nobody took over";
  }
}

TEST_F(ReapRaceTest, EveryAnswerIsTrue) {
  std::vector<std::thread> threads;
  threads.reserve(kCallers + 1);
  for (int caller = 0; caller < kCallers; ++caller) {
    threads.emplace_back([this, caller] { Call(caller); });
  }
  threads.emplace_back([this] { Sweep(); });
  absl::SleepFor(kDuration);
  stop_ = true;
  for (std::thread& thread : threads) thread.join();

  std::map<std::string, int> seen;
  for (const History& history : histories_) {
    CheckFences(history);
    CheckBegins(history, seen);
    CheckCompletions(history, seen);
  }
  std::printf("%8d  deleted\n", deleted_.load());
  for (const auto& [what, count] : seen) {
    std::printf("%8d  %s\n", count, what.c_str());
  }
  // Otherwise nothing was tested.
  EXPECT_GT(deleted_, 20);
  for (const char* what :
       {"started", "taken over", "replay", "in progress", "mismatch",
        "completed", "refused: KEY_UNKNOWN", "refused: LEASE_LOST"}) {
    EXPECT_GT(seen[what], 0) << what;
  }
}

}  // namespace
}  // namespace dedupe::testing
