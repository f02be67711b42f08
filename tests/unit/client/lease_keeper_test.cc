#include "client/src/lease_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace dedupe::client {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

using Renewal = LeaseKeeper::Renewal;

constexpr absl::Duration kLease = absl::Milliseconds(300);
// Of a busy machine.
constexpr absl::Duration kSlack = absl::Milliseconds(150);

LeaseKeeper::TimePoint In(absl::Duration duration) {
  return SteadyClock::now() + ToSteady(duration);
}

class LeaseKeeperTest : public ::testing::Test {
 protected:
  // A lease granted just now, renewed by `renew`.
  LeaseKeeper::Terms TermsOf(LeaseKeeper::Renew renew) {
    return {.holds_until = In(kLease),
            .lease = kLease,
            .limit = In(absl::Seconds(60)),
            .renew = std::move(renew),
            .stop = stop_};
  }

  LeaseKeeper::Renew Answering(Renewal::Kind kind) {
    return [this, kind](LeaseKeeper::TimePoint, auto done) {
      ++renewals_;
      done({.kind = kind, .holds_until = In(kLease)});
    };
  }

  // How long until it is asked to stop; the limit if it is not.
  absl::Duration TimeToStop(absl::Duration limit) {
    const auto start = SteadyClock::now();
    PauseUntil(start + ToSteady(limit), stop_.get_token());
    return absl::FromChrono(SteadyClock::now() - start);
  }
  bool is_stopped() const { return stop_.stop_requested(); }

  std::stop_source stop_;
  std::atomic<int> renewals_ = 0;
  LeaseKeeper keeper_;
};

TEST_F(LeaseKeeperTest, LeaseIsRenewedEachThird) {
  const auto kept = keeper_.Keep(TermsOf(Answering(Renewal::Kind::kRenewed)));
  TimeToStop(absl::Seconds(1));
  EXPECT_FALSE(is_stopped());
  EXPECT_THAT(renewals_.load(), AllOf(Ge(5), Le(10)));
  EXPECT_GT(kept->holds_until(), In(absl::Milliseconds(20)));
}

TEST_F(LeaseKeeperTest, UnansweredRenewalsEndBeforeTheLease) {
  const auto kept =
      keeper_.Keep(TermsOf(Answering(Renewal::Kind::kUnanswered)));
  EXPECT_THAT(TimeToStop(absl::Seconds(5)),
              AllOf(Ge(kLease * 0.9), Le(kLease)));
  EXPECT_TRUE(is_stopped());
  // At 100 ms, and then each 30 ms.
  EXPECT_THAT(renewals_.load(), AllOf(Ge(3), Le(7)));
}

TEST_F(LeaseKeeperTest, LostLeaseStopsAtOnce) {
  const auto kept = keeper_.Keep(TermsOf(Answering(Renewal::Kind::kLost)));
  EXPECT_THAT(TimeToStop(absl::Seconds(5)),
              AllOf(Ge(kLease / 3), Le(kLease / 3 + kSlack)));
  EXPECT_EQ(renewals_, 1);
  EXPECT_LE(kept->holds_until(), SteadyClock::now());
}

// A renewal that hangs must not keep the work from being told.
TEST_F(LeaseKeeperTest, RenewalWithoutAnAnswerDoesNotDelayTheStop) {
  std::mutex mutex;
  std::vector<std::function<void(Renewal)>> unanswered;
  LeaseKeeper::TimePoint deadline;
  const LeaseKeeper::TimePoint end = In(kLease);
  const auto kept =
      keeper_.Keep(TermsOf([&](LeaseKeeper::TimePoint its_deadline, auto done) {
        std::lock_guard lock(mutex);
        deadline = its_deadline;
        unanswered.push_back(std::move(done));
      }));
  EXPECT_LE(TimeToStop(absl::Seconds(5)), kLease);
  std::lock_guard lock(mutex);
  ASSERT_GE(unanswered.size(), 1u);
  EXPECT_LE(deadline, end);
  // Too late to be of use.
  unanswered[0]({.kind = Renewal::Kind::kRenewed, .holds_until = In(kLease)});
  EXPECT_TRUE(is_stopped());
}

// The first hangs for good: the lease was lost, though every other renewal
// would have been answered.
TEST_F(LeaseKeeperTest, RenewalThatHangsKeepsNoOtherFromBeingSent) {
  const auto kept =
      keeper_.Keep(TermsOf([&](LeaseKeeper::TimePoint, auto done) {
        if (++renewals_ == 1) return;
        done({.kind = Renewal::Kind::kRenewed, .holds_until = In(kLease)});
      }));
  TimeToStop(kLease * 4);
  EXPECT_FALSE(is_stopped());
}

TEST_F(LeaseKeeperTest, WorkThatLearnsOfTheLossIsStopped) {
  const auto kept = keeper_.Keep(TermsOf(Answering(Renewal::Kind::kRenewed)));
  kept->Lost();
  EXPECT_LE(TimeToStop(absl::Seconds(5)), kSlack);
  EXPECT_LE(kept->holds_until(), SteadyClock::now());
}

// What the renewals use is destroyed next.
TEST_F(LeaseKeeperTest, NothingIsRenewedAfterClose) {
  const auto kept = keeper_.Keep(TermsOf(Answering(Renewal::Kind::kRenewed)));
  keeper_.Close();
  const int before = renewals_;
  TimeToStop(kLease);
  EXPECT_EQ(renewals_, before);
}

TEST_F(LeaseKeeperTest, LimitStopsAWorkThatIsRenewed) {
  LeaseKeeper::Terms terms = TermsOf(Answering(Renewal::Kind::kRenewed));
  terms.limit = In(absl::Milliseconds(700));
  const auto kept = keeper_.Keep(std::move(terms));
  EXPECT_THAT(
      TimeToStop(absl::Seconds(5)),
      AllOf(Ge(absl::Milliseconds(650)), Le(absl::Milliseconds(700) + kSlack)));
}

TEST_F(LeaseKeeperTest, NothingIsRenewedAfterTheWork) {
  keeper_.Keep(TermsOf(Answering(Renewal::Kind::kRenewed))).reset();
  TimeToStop(kLease * 2);
  EXPECT_EQ(renewals_, 0);
  EXPECT_FALSE(is_stopped());
}

TEST_F(LeaseKeeperTest, AnswerAfterTheWorkIsWithoutEffect) {
  std::mutex mutex;
  std::function<void(Renewal)> late;
  auto kept = keeper_.Keep(TermsOf([&](LeaseKeeper::TimePoint, auto done) {
    std::lock_guard lock(mutex);
    late = std::move(done);
  }));
  TimeToStop(kLease / 2);
  kept.reset();
  {
    std::lock_guard lock(mutex);
    ASSERT_TRUE(late);
    late({.kind = Renewal::Kind::kLost, .holds_until = {}});
  }
  TimeToStop(kLease);
  EXPECT_FALSE(is_stopped());
}

TEST_F(LeaseKeeperTest, WorksOwnRenewalCounts) {
  const auto kept =
      keeper_.Keep(TermsOf(Answering(Renewal::Kind::kUnanswered)));
  kept->Renewed(In(absl::Milliseconds(800)));
  EXPECT_THAT(TimeToStop(absl::Seconds(5)),
              AllOf(Ge(absl::Milliseconds(700)), Le(absl::Milliseconds(800))));
  // An older one does not shorten it.
  kept->Renewed(In(-absl::Seconds(1)));
  EXPECT_GT(kept->holds_until(), In(-absl::Seconds(1)));
}

TEST_F(LeaseKeeperTest, ManyLeasesAreKeptByOneThread) {
  constexpr int kThreads = 8;
  constexpr int kLeases = 200;
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::vector<std::unique_ptr<LeaseKeeper::Kept>> kept;
      for (int j = 0; j < kLeases; ++j) {
        kept.push_back(keeper_.Keep(
            {.holds_until = In(absl::Milliseconds(900)),
             .lease = absl::Milliseconds(900),
             .limit = In(absl::Seconds(60)),
             .renew =
                 [&](LeaseKeeper::TimePoint, auto done) {
                   ++answered;
                   done({.kind = Renewal::Kind::kRenewed,
                         .holds_until = In(absl::Milliseconds(900))});
                 },
             .stop = stop_}));
      }
      std::stop_source never;
      PauseUntil(In(absl::Milliseconds(700)), never.get_token());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(is_stopped());
  EXPECT_GE(answered, kThreads * kLeases);
}

}  // namespace
}  // namespace dedupe::client
