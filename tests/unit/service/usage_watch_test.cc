// Counting what principals with a quota have: page by page, and no one else's.
#include "server/service/usage_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/service/reason.h"

namespace dedupe {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;

constexpr int kRowLimit = 10;
constexpr int64_t kBytesOfARow = 100;

// The database of one principal's records, each of the same size, and both
// watches on it.
class UsageWatchTest : public ::testing::Test {
 protected:
  void Start(Quota quota, int rows,
             std::vector<std::string> patterns = {"shop/*"}) {
    Principal principal;
    principal.name = "shop";
    principal.client_ids = std::move(patterns);
    principal.quota = quota;
    {
      absl::MutexLock lock(&mutex_);
      rows_ = rows;
    }
    access_.emplace([principal](const AccessCommand&) {
      AccessAnswer answer;
      answer.version = 1;
      answer.list.emplace().principals = {principal};
      return answer;
    });
    AwaitTrue([this] { return access_->Status().ok(); });
    usage_.emplace(
        *access_, [this](UsageCommand command) { return Count(command); },
        UsageWatch::Options{.interval = absl::Milliseconds(5),
                            .row_limit = kRowLimit});
  }

  template <typename Condition>
  static void AwaitTrue(Condition condition) {
    const absl::Time until = absl::Now() + absl::Seconds(10);
    while (!condition()) {
      ASSERT_LT(absl::Now(), until);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  void SetRows(int rows) {
    absl::MutexLock lock(&mutex_);
    rows_ = rows;
  }
  void SetDown(bool down) {
    absl::MutexLock lock(&mutex_);
    down_ = down;
  }
  std::vector<UsageCommand> commands() {
    absl::MutexLock lock(&mutex_);
    return commands_;
  }
  bool MayCreate(const Quota& quota) {
    QuotaUse& use = *access_->Callers().front().use;
    const bool may = use.StartBegin(quota).ok();
    if (may) use.FinishBegin(QuotaUse::Outcome::kNone);
    return may;
  }

  std::optional<AccessWatch> access_;
  std::optional<UsageWatch> usage_;

 private:
  absl::StatusOr<UsageAnswer> Count(const UsageCommand& command) {
    absl::MutexLock lock(&mutex_);
    commands_.push_back(command);
    if (down_) return Refusal(Reason::kStoreDown);
    const int begin =
        command.after_key.empty() ? 0 : std::stoi(command.after_key) + 1;
    const int end = std::min(begin + command.row_limit, rows_);
    UsageAnswer answer;
    answer.rows = end - begin;
    answer.live_keys = answer.rows;
    answer.stored_bytes = kBytesOfARow * answer.rows;
    answer.last_client_id = "shop/a";
    answer.last_key = absl::StrCat(end - 1);
    return answer;
  }

  absl::Mutex mutex_;
  int rows_ ABSL_GUARDED_BY(mutex_) = 0;
  bool down_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<UsageCommand> commands_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(UsageWatchTest, KeysAreSummedOverPages) {
  const Quota quota{.live_keys_max = 35};
  Start(quota, 35);
  AwaitTrue([&] { return !MayCreate(quota); });
  EXPECT_TRUE(MayCreate({.live_keys_max = 36}));
  EXPECT_THAT(commands(), Each(AllOf(Field(&UsageCommand::pattern, "shop/*"),
                                     Field(&UsageCommand::row_limit, 10))));
}

// A record that two patterns take in is one record.
TEST_F(UsageWatchTest, PatternsThatOthersCoverAreNotCounted) {
  Start({.live_keys_max = 1}, 1,
        {"shop/eu", "shop/eu/*", "mail", "mail*", "shop/*", "shop", "shop/*"});
  AwaitTrue([&] { return commands().size() > 10; });
  std::set<std::string> counted;
  for (const UsageCommand& command : commands()) {
    counted.insert(command.pattern);
  }
  EXPECT_EQ(counted, (std::set<std::string>{"mail*", "shop", "shop/*"}));
}

TEST_F(UsageWatchTest, BytesAreSummedOverPages) {
  const Quota quota{.stored_bytes_max = 30 * kBytesOfARow};
  Start(quota, 30);
  AwaitTrue([&] { return !MayCreate(quota); });
  EXPECT_TRUE(MayCreate({.stored_bytes_max = 30 * kBytesOfARow + 1}));
}

TEST_F(UsageWatchTest, ExpiryMakesRoom) {
  const Quota quota{.live_keys_max = 5};
  Start(quota, 5);
  AwaitTrue([&] { return !MayCreate(quota); });
  SetRows(4);
  AwaitTrue([&] { return MayCreate(quota); });
}

TEST_F(UsageWatchTest, WithoutAQuotaNothingIsCounted) {
  Start({.calls_per_second_max = 1}, 100);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_TRUE(commands().empty());
}

// A count that failed half-way is not taken for a small one.
TEST_F(UsageWatchTest, LastCountStaysWhenTheDatabaseIsAway) {
  const Quota quota{.live_keys_max = 5};
  Start(quota, 5);
  AwaitTrue([&] { return !MayCreate(quota); });
  SetDown(true);
  SetRows(0);
  const size_t before = commands().size();
  AwaitTrue([&] { return commands().size() > before + 2; });
  EXPECT_FALSE(MayCreate(quota));
  SetDown(false);
  AwaitTrue([&] { return MayCreate(quota); });
}

}  // namespace
}  // namespace dedupe
