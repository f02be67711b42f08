// A process with eight threads on the journal is killed at a random moment, a
// thousand times over, on a real disk: nothing that was acknowledged is lost,
// and no intent has two keys. What a kill cannot show, a power loss, is
// journal_syscall_test's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/journal/crash_plan.h"
#include "tests/journal/journal_fixture.h"

namespace dedupe::client {
namespace {

// Sanitized programs take several times as long, mostly to start.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 150;
#else
constexpr int kRounds = 1000;
#endif
constexpr double kLifeMillisMax = 16;
// A journal that waits for nothing needs a quarter of it.
constexpr absl::Duration kLimit = absl::Minutes(4);

struct Acknowledged {
  std::string key;
  bool settled = false;
};

// Most are short, so that there can be many; some are long.
absl::Duration RandomLife(std::mt19937& random) {
  const double part = std::uniform_real_distribution<double>(0, 1)(random);
  return absl::Milliseconds(kLifeMillisMax * part * part * part);
}

class JournalCrashTest : public ::testing::Test {
 protected:
  JournalCrashTest() {
    std::string pattern =
        absl::StrCat(testing::BuildDirectory(), "/journal-crash-XXXXXX");
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/intents";
  }
  ~JournalCrashTest() override { std::filesystem::remove_all(folder_); }

  // All that the worker of that round said before it was killed: so long after
  // its first word, or now and then after its beginning, when it has not even
  // opened the journal or is about to.
  std::string RunAndKill(int round, absl::Duration life) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const std::string program =
        testing::BuildDirectory() + "/tests/journal/journal_worker";
    const std::string number = absl::StrCat(round);
    const pid_t worker = fork();
    if (worker == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(program.c_str(), program.c_str(), path_.c_str(), number.c_str(),
            nullptr);
      _exit(127);
    }
    close(ends[1]);
    pollfd first_word = {ends[0], POLLIN, 0};
    if (round % 8 != 0) poll(&first_word, 1, /*timeout=*/20'000);
    std::string said = ReadUntil(ends[0], absl::Now() + life);
    kill(worker, SIGKILL);
    said += ReadUntil(ends[0], absl::InfiniteFuture());
    close(ends[0]);
    int status = 0;
    waitpid(worker, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << said;
    return said;
  }

  // Or until the end.
  static std::string ReadUntil(int file, absl::Time until) {
    std::string said;
    for (;;) {
      const auto left = absl::ToInt64Milliseconds(until - absl::Now());
      pollfd readable = {file, POLLIN, 0};
      const int wait =
          until == absl::InfiniteFuture() ? -1 : static_cast<int>(left) + 1;
      if (absl::Now() >= until || poll(&readable, 1, wait) <= 0) return said;
      char block[65536];
      const ssize_t got = read(file, block, sizeof(block));
      if (got <= 0) return said;
      said.append(block, static_cast<size_t>(got));
    }
  }

  void TakeDown(const std::string& said) {
    for (const absl::string_view line :
         absl::StrSplit(said, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words[0] == "intend" && words.size() == 3) {
        TakeDownKey(words[1], words[2]);
      } else if (words[0] == "settle" && words.size() == 2) {
        acknowledged_[words[1]].settled = true;
        open_.erase(words[1]);
      } else {
        ADD_FAILURE() << line;
      }
    }
  }
  void TakeDownKey(const std::string& vessel, const std::string& key) {
    Acknowledged& known = acknowledged_[vessel];
    if (known.key.empty()) {
      if (!keys_.insert(key).second) ++second_keys_;
      known.key = key;
      if (!known.settled) open_.insert(vessel);
    }
    if (known.key != key) ++second_keys_;
  }

  // What a restarted client sees of it all.
  void Check(int round) {
    const auto journal = Journal::Open(path_, CrashOptions(round));
    ASSERT_TRUE(journal.ok()) << journal.status();
    torn_ += (*journal)->recovery().torn_bytes > 0 ? 1 : 0;
    std::map<std::string, std::string> pending;
    const std::vector<Intent> all = *(*journal)->Pending();
    for (const Intent& intent : all) {
      pending[intent.vessel] = intent.key;
    }
    for (const auto& [vessel, key] : pending) {
      const auto known = acknowledged_.find(vessel);
      if (known == acknowledged_.end()) continue;
      if (known->second.key != key) ++second_keys_;
      if (known->second.settled) ++lost_;
    }
    for (auto open = open_.begin(); open != open_.end();) {
      const bool settled = !pending.contains(*open);
      // Settle may have been at work when the process was killed.
      if (settled && !IsSettled(**journal, *open)) ++lost_;
      open = settled ? open_.erase(open) : std::next(open);
    }
    for (int of = std::max(0, round - kRoundsOfAVessel); of <= round; ++of) {
      CheckKeys(**journal, of);
    }
    SettleLeftovers(**journal, round - kRoundsOfAVessel, pending);
  }
  // So that the file does not grow with every round.
  void SettleLeftovers(Journal& journal, int round,
                       const std::map<std::string, std::string>& pending) {
    for (int number = 0; round >= 0 && number < kVesselsOfARound; ++number) {
      const std::string vessel = CrashVessel(round, number);
      if (StaysPending(round, number) || !pending.contains(vessel)) continue;
      ASSERT_TRUE(journal.Settle(vessel).ok());
      acknowledged_[vessel].settled = true;
      open_.erase(vessel);
    }
  }
  bool IsSettled(Journal& journal, const std::string& vessel) {
    const auto intent = journal.Intend(vessel);
    return intent.ok() && intent->key == acknowledged_[vessel].key &&
           intent->settled;
  }
  void CheckKeys(Journal& journal, int round) {
    for (int number = 0; number < kVesselsOfARound; ++number) {
      const auto known = acknowledged_.find(CrashVessel(round, number));
      if (known == acknowledged_.end()) continue;
      const auto intent = journal.Intend(known->first);
      ASSERT_TRUE(intent.ok()) << intent.status();
      if (intent->key != known->second.key) ++second_keys_;
      if (known->second.settled && !intent->settled) ++lost_;
    }
  }

  std::string folder_;
  std::string path_;
  std::map<std::string, Acknowledged> acknowledged_;
  // The vessels of those that nobody has seen settled.
  std::set<std::string> open_;
  std::set<std::string> keys_;
  int second_keys_ = 0;
  int lost_ = 0;
  int torn_ = 0;
};

TEST_F(JournalCrashTest, NothingAcknowledgedIsLostAndNoIntentHasTwoKeys) {
  const unsigned seed = std::random_device()();
  std::cout << "seed " << seed << std::endl;
  std::mt19937 random(seed);
  const absl::Time begin = absl::Now();
  int rewritten = 0;
  int rounds = 0;
  for (; rounds < kRounds && !HasFailure(); ++rounds) {
    const ino_t before = InodeOf(path_);
    TakeDown(RunAndKill(rounds, RandomLife(random)));
    Check(rounds);
    EXPECT_EQ(second_keys_, 0) << "in round " << rounds;
    EXPECT_EQ(lost_, 0) << "in round " << rounds;
    if (before != 0 && InodeOf(path_) != before) ++rewritten;
    ASSERT_LT(absl::Now() - begin, kLimit) << "in round " << rounds;
  }
  std::cout << rounds << " rounds, " << keys_.size()
            << " intents acknowledged, " << second_keys_ << " with two keys, "
            << lost_ << " lost; " << torn_ << " torn ends cut, " << rewritten
            << " rounds with the file rewritten; "
            << absl::FormatDuration(absl::Now() - begin) << std::endl;
  EXPECT_EQ(rounds, kRounds);
  EXPECT_GT(keys_.size(), size_t{kRounds});
  EXPECT_GE(rewritten, kRounds / 500);
}

// Figures to be read, not to be judged: they are the disk's.
TEST_F(JournalCrashTest, PrintsWhatADurableAppendCosts) {
  const auto journal = Journal::Open(path_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  std::vector<absl::Duration> each;
  for (int i = 0; i < 500; ++i) {
    const absl::Time begin = absl::Now();
    ASSERT_TRUE((*journal)->Intend(absl::StrCat("alone-", i)).ok());
    each.push_back(absl::Now() - begin);
  }
  std::sort(each.begin(), each.end());
  const absl::Time begin = absl::Now();
  std::vector<std::thread> threads;
  threads.reserve(kCrashThreads);
  for (int t = 0; t < kCrashThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE((*journal)->Intend(absl::StrCat("of-", t, "-", i)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const absl::Duration together = absl::Now() - begin;
  std::cout << "durable append: one thread p50 "
            << absl::FormatDuration(each[each.size() / 2]) << ", p99 "
            << absl::FormatDuration(each[each.size() * 99 / 100])
            << "; eight threads "
            << absl::FormatDuration(together / (kCrashThreads * 200))
            << " for each" << std::endl;
}

}  // namespace
}  // namespace dedupe::client
