// The ledger of calls: how many come in, and whose connection is cut.
#include "server/rpc/call_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dedupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kPeer[] = "ipv4:127.0.0.1:1";
constexpr char kOther[] = "ipv4:127.0.0.1:2";
constexpr char kUnix[] = "unix:";

class CallLedgerTest : public ::testing::Test {
 protected:
  CallLedger& Make(CallLedger::Limits limits) {
    return ledger_.emplace(
        limits, [this](const std::string& peer, absl::Duration keep_out) {
          absl::MutexLock lock(&mutex_);
          keep_out_ = keep_out;
          cut_.push_back(peer);
          return true;
        });
  }

  // Entries stay where they are.
  CallLedger::Entry& NewEntry() { return entries_.emplace_back(); }
  bool Enter(const std::string& peer) {
    return ledger_->Enter(peer, NewEntry());
  }

  std::vector<std::string> AwaitCut(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return cut_.size() >= count;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(10));
    return cut_;
  }
  absl::Duration keep_out() {
    absl::MutexLock lock(&mutex_);
    return keep_out_;
  }
  std::vector<std::string> cut() { return AwaitCut(0); }

 private:
  std::deque<CallLedger::Entry> entries_;
  absl::Mutex mutex_;
  std::vector<std::string> cut_ ABSL_GUARDED_BY(mutex_);
  // Of the last one.
  absl::Duration keep_out_ ABSL_GUARDED_BY(mutex_);
  // Last, because its thread uses the others.
  std::optional<CallLedger> ledger_;
};

TEST_F(CallLedgerTest, NoMoreThanAllAreLetIn) {
  CallLedger& ledger = Make({.calls_max = 2});
  CallLedger::Entry& first = NewEntry();
  EXPECT_TRUE(ledger.Enter(kPeer, first));
  EXPECT_TRUE(Enter(kOther));
  EXPECT_FALSE(Enter(kOther));
  ledger.Leave(first);
  EXPECT_TRUE(Enter(kOther));
  EXPECT_EQ(ledger.calls(), 2);
}

TEST_F(CallLedgerTest, OneConnectionsLimitIsNotTheOthers) {
  CallLedger& ledger = Make({.calls_max = 100, .connection_calls_max = 2});
  EXPECT_TRUE(Enter(kPeer));
  CallLedger::Entry& second = NewEntry();
  EXPECT_TRUE(ledger.Enter(kPeer, second));
  EXPECT_FALSE(Enter(kPeer));
  EXPECT_TRUE(Enter(kOther));
  ledger.Leave(second);
  EXPECT_TRUE(Enter(kPeer));
}

TEST_F(CallLedgerTest, RefusalIsAReplyThatMayLieUnread) {
  CallLedger& ledger =
      Make({.calls_max = 0, .unread_time_max = absl::Milliseconds(1)});
  CallLedger::Entry& refused = NewEntry();
  ASSERT_FALSE(ledger.Enter(kPeer, refused));
  EXPECT_FALSE(refused.empty());
  EXPECT_TRUE(ledger.Reply(refused, 0));
  EXPECT_EQ(AwaitCut(1).front(), kPeer);
  ledger.Leave(refused);
  EXPECT_EQ(ledger.calls(), 0);
}

// Those who flood a connection with calls that are reset at once.
TEST_F(CallLedgerTest, PeerThatResetsItsCallsIsCut) {
  CallLedger& ledger =
      Make({.calls_max = 100, .connection_wasted_calls_max = 3});
  for (int i = 0; i < 2; ++i) ledger.Waste(kPeer);
  for (int i = 0; i < 2; ++i) ledger.Waste(kOther);
  ledger.Waste(kPeer);
  // Once only, however many are still on their way.
  ledger.Waste(kPeer);
  EXPECT_THAT(AwaitCut(1), ElementsAre(kPeer));
  EXPECT_EQ(keep_out(), kKeepOut);
}

TEST_F(CallLedgerTest, PeerThatHeedsNoLimitIsCut) {
  Make({.calls_max = 100,
        .connection_calls_max = 1,
        .connection_wasted_calls_max = 3});
  for (int i = 0; i < 4; ++i) Enter(kPeer);
  EXPECT_THAT(AwaitCut(1), ElementsAre(kPeer));
}

// Deadlines pass: now and then that is not the peer's fault.
TEST_F(CallLedgerTest, FewWastedCallsPerSecondAreBorne) {
  CallLedger& ledger =
      Make({.calls_max = 100, .connection_wasted_calls_max = 3});
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) ledger.Waste(kPeer);
    absl::SleepFor(absl::Milliseconds(1300));
  }
  EXPECT_THAT(cut(), IsEmpty());
}

// The server's own lack of room is not the peer's fault.
TEST_F(CallLedgerTest, NobodyIsCutBecauseOthersFillTheServer) {
  CallLedger& ledger = Make({.calls_max = 1, .connection_wasted_calls_max = 3});
  ASSERT_TRUE(Enter(kOther));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Enter(kPeer));
  ledger.Waste(kOther);
  for (int i = 0; i < 2; ++i) ledger.Waste(kOther);
  EXPECT_THAT(AwaitCut(1), ElementsAre(kOther));
}

TEST_F(CallLedgerTest, WaitsLeaveRoomOnTheirConnection) {
  CallLedger& ledger = Make({.calls_max = 100, .connection_waits_max = 1});
  CallLedger::Entry& first = NewEntry();
  CallLedger::Entry& second = NewEntry();
  CallLedger::Entry& elsewhere = NewEntry();
  ASSERT_TRUE(ledger.Enter(kPeer, first));
  ASSERT_TRUE(ledger.Enter(kPeer, second));
  ASSERT_TRUE(ledger.Enter(kOther, elsewhere));
  EXPECT_TRUE(ledger.MayWait(first));
  EXPECT_FALSE(ledger.MayWait(second));
  EXPECT_TRUE(ledger.MayWait(elsewhere));
  ledger.Leave(first);
  EXPECT_TRUE(ledger.MayWait(second));
}

TEST_F(CallLedgerTest, PeersOfAUnixSocketAreNotTakenForOne) {
  CallLedger& ledger = Make(
      {.calls_max = 3, .connection_calls_max = 1, .connection_waits_max = 0});
  CallLedger::Entry& first = NewEntry();
  EXPECT_TRUE(ledger.Enter(kUnix, first));
  EXPECT_TRUE(ledger.MayWait(first));
  EXPECT_TRUE(Enter(kUnix));
  EXPECT_TRUE(Enter(kUnix));
  EXPECT_FALSE(Enter(kUnix));
}

TEST_F(CallLedgerTest, PeerThatDoesNotReadIsCut) {
  CallLedger& ledger =
      Make({.calls_max = 100, .unread_time_max = absl::Milliseconds(300)});
  CallLedger::Entry& read = NewEntry();
  CallLedger::Entry& unread = NewEntry();
  ASSERT_TRUE(ledger.Enter(kOther, read));
  ASSERT_TRUE(ledger.Enter(kPeer, unread));
  ledger.Reply(read, 10);
  ledger.Leave(read);
  const absl::Time replied_at = absl::Now();
  ledger.Reply(unread, 10);
  EXPECT_THAT(AwaitCut(1), ElementsAre(kPeer));
  EXPECT_GE(absl::Now() - replied_at, absl::Milliseconds(300));
  EXPECT_EQ(keep_out(), absl::ZeroDuration());
}

TEST_F(CallLedgerTest, CallAtWorkIsNoUnreadReply) {
  Make({.calls_max = 100, .unread_time_max = absl::Milliseconds(1)});
  ASSERT_TRUE(Enter(kPeer));
  absl::SleepFor(absl::Milliseconds(600));
  EXPECT_THAT(cut(), IsEmpty());
}

TEST_F(CallLedgerTest, PeersGetLessTimeWhenMemoryRunsOut) {
  CallLedger& ledger =
      Make({.calls_max = 100,
            .unread_bytes_max = 1000,
            .unread_time_max = absl::Hours(1),
            .unread_time_max_when_full = absl::Milliseconds(300)});
  CallLedger::Entry& small = NewEntry();
  CallLedger::Entry& large = NewEntry();
  ASSERT_TRUE(ledger.Enter(kOther, small));
  ledger.Reply(small, 400);
  absl::SleepFor(absl::Milliseconds(600));
  EXPECT_THAT(cut(), IsEmpty());
  ASSERT_TRUE(ledger.Enter(kPeer, large));
  ledger.Reply(large, 400);
  // The one that has waited longest; then there is room enough.
  EXPECT_EQ(AwaitCut(1).front(), kOther);
}

constexpr size_t kLarge = 100'000;

TEST_F(CallLedgerTest, LargeRepliesHaveNoRoomBeyondTheMemory) {
  CallLedger& ledger = Make({.calls_max = 100,
                             .unread_bytes_max = 3 * kLarge,
                             .unread_time_max = absl::Hours(1),
                             .unread_time_max_when_full = absl::Hours(1)});
  std::vector<CallLedger::Entry*> entries;
  for (int i = 0; i < 5; ++i) {
    entries.push_back(&NewEntry());
    ASSERT_TRUE(ledger.Enter(i % 2 == 0 ? kPeer : kOther, *entries.back()));
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(ledger.Reply(*entries[static_cast<size_t>(i)], kLarge));
  EXPECT_FALSE(ledger.Reply(*entries[3], kLarge));
  EXPECT_TRUE(ledger.Reply(*entries[3], kSmallReplyBytesMax));
  ledger.Leave(*entries[3]);
  ledger.Leave(*entries[0]);
  EXPECT_TRUE(ledger.Reply(*entries[4], kLarge));
}

TEST_F(CallLedgerTest, OneConnectionsUnreadRepliesAreBounded) {
  CallLedger& ledger = Make({.calls_max = 100,
                             .connection_unread_bytes_max = 2 * kLarge,
                             .unread_time_max = absl::Hours(1)});
  std::vector<CallLedger::Entry*> entries;
  for (int i = 0; i < 4; ++i) {
    entries.push_back(&NewEntry());
    ASSERT_TRUE(ledger.Enter(i == 3 ? kOther : kPeer, *entries.back()));
  }
  EXPECT_TRUE(ledger.Reply(*entries[0], kLarge));
  EXPECT_TRUE(ledger.Reply(*entries[1], kLarge));
  EXPECT_FALSE(ledger.Reply(*entries[2], kLarge));
  EXPECT_TRUE(ledger.Reply(*entries[3], kLarge));
  // A small one beyond it fills the connection, and no further call is let in.
  EXPECT_TRUE(ledger.Reply(*entries[2], 1));
  EXPECT_FALSE(Enter(kPeer));
  EXPECT_TRUE(Enter(kOther));
}

TEST_F(CallLedgerTest, UnixPeersAreNotCut) {
  CallLedger& ledger =
      Make({.calls_max = 100, .unread_time_max = absl::Milliseconds(1)});
  CallLedger::Entry& local = NewEntry();
  CallLedger::Entry& remote = NewEntry();
  ASSERT_TRUE(ledger.Enter(kUnix, local));
  ledger.Reply(local, 10);
  ASSERT_TRUE(ledger.Enter(kPeer, remote));
  ledger.Reply(remote, 10);
  EXPECT_EQ(AwaitCut(1).front(), kPeer);
  for (const std::string& peer : cut()) EXPECT_NE(peer, kUnix);
}

}  // namespace
}  // namespace dedupe
