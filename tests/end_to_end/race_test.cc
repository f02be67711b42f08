// Many callers of one key at one instant, at two servers that know nothing of
// each other but the database: exactly one may run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/deployment.h"

namespace dedupe::testing {
namespace {

constexpr int kCallers = 64;

// Calls `call` on so many threads at one instant, and does so `rounds` times.
void AtOneInstant(int callers, int rounds,
                  const std::function<void(int caller, int round)>& call) {
  std::barrier barrier(callers);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(callers));
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      for (int round = 0; round < rounds; ++round) {
        barrier.arrive_and_wait();
        call(caller, round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Two servers, each reached over four connections.
class RaceTest : public EndToEndTest {
 protected:
  static ServerProcess& OtherServer() {
    Shared();
    static ServerProcess server({.database_url = Shared().server_url(),
                                 .settings = {},
                                 .environment = {}});
    return server;
  }

  // Of neighbours one asks this server and one the other.
  static Client& ClientOf(int caller) {
    static const auto kClients = [] {
      auto made = std::make_unique<std::vector<std::unique_ptr<Client>>>();
      for (int i = 0; i < 8; ++i) {
        made->push_back(
            std::make_unique<Client>(i % 2 == 0 ? Shared().server().address()
                                                : OtherServer().address()));
      }
      return made;
    }();
    return *(*kClients)[static_cast<size_t>(caller) % kClients->size()];
  }

  static v1::BeginRequest Request(int round, int caller) {
    return BeginOf(Key(absl::StrCat("/", round)),
                   absl::StrCat("attempt-", caller));
  }

  static std::string RowsOfThisTest() {
    return SqlValue(Shared().url(),
                    absl::StrCat("SELECT count(*) FROM dedupe.record WHERE"
                                 " starts_with(key, '",
                                 Key("/"), "')"));
  }
};

TEST_F(RaceTest, OneOfSixtyFourCallersStarts) {
  constexpr int kKeys = 200;
  std::vector<std::vector<BeginReply>> replies(
      kKeys, std::vector<BeginReply>(kCallers));
  const absl::Time start = absl::Now();
  AtOneInstant(kCallers, kKeys, [&](int caller, int round) {
    replies[static_cast<size_t>(round)][static_cast<size_t>(caller)] =
        ClientOf(caller).Begin(Request(round, caller));
  });
  const absl::Duration took = absl::Now() - start;

  for (const std::vector<BeginReply>& of_one_key : replies) {
    int started = 0;
    for (const BeginReply& reply : of_one_key) {
      ASSERT_THAT(reply, ::testing::AnyOf(IsStarted(), IsInProgress()));
      if (reply.message.has_started()) {
        ++started;
        EXPECT_GT(reply.message.started().fence(), 0);
      } else {
        EXPECT_GT(FromProto(reply.message.in_progress().retry_after()),
                  absl::ZeroDuration());
      }
    }
    EXPECT_EQ(started, 1);
  }
  EXPECT_EQ(RowsOfThisTest(), absl::StrCat(kKeys));
  absl::PrintF(
      "%d keys x %d callers: %d started, the rest in_progress,"
      " %.0f calls/s\n",
      kKeys, kCallers, kKeys, kKeys * kCallers / absl::ToDoubleSeconds(took));
}

// A caller is never locked out by itself: copies of one call, as proxies and
// retries make them, are one.
TEST_F(RaceTest, CopiesOfOneAttemptAllStartWithOneFence) {
  constexpr int kKeys = 500;
  constexpr int kCopies = 5;
  std::vector<std::vector<BeginReply>> replies(
      kKeys, std::vector<BeginReply>(kCopies));
  AtOneInstant(kCopies, kKeys, [&](int caller, int round) {
    replies[static_cast<size_t>(round)][static_cast<size_t>(caller)] =
        ClientOf(caller).Begin(Request(round, 0));
  });

  for (const std::vector<BeginReply>& of_one_key : replies) {
    std::set<int64_t> fences;
    int fresh = 0;
    for (const BeginReply& reply : of_one_key) {
      ASSERT_THAT(reply, IsStarted());
      fences.insert(reply.message.started().fence());
      fresh += reply.message.started().resumed() ? 0 : 1;
      EXPECT_FALSE(reply.message.started().taken_over());
    }
    EXPECT_EQ(fences.size(), 1u);
    EXPECT_EQ(fresh, 1);
  }
  EXPECT_EQ(RowsOfThisTest(), absl::StrCat(kKeys));
}

// A mesh that lost the reply sends the same bytes to another server.
TEST_F(RaceTest, SameBytesToAnotherServerStartWithTheSameFence) {
  const std::string bytes = Request(0, 0).SerializeAsString();
  const RawReply lost =
      CallRaw(ClientOf(0).channel(), MethodPath("Begin"), bytes);
  absl::SleepFor(absl::Milliseconds(20));
  const RawReply reply =
      CallRaw(ClientOf(1).channel(), MethodPath("Begin"), bytes);

  v1::BeginResponse first;
  v1::BeginResponse second;
  ASSERT_TRUE(first.ParseFromString(lost.message));
  ASSERT_TRUE(second.ParseFromString(reply.message));
  ASSERT_TRUE(second.has_started());
  EXPECT_EQ(second.started().fence(), first.started().fence());
  EXPECT_TRUE(second.started().resumed());
  EXPECT_EQ(RowsOfThisTest(), "1");
}

// A duplicate is recognised before the first has finished, not only after.
TEST_F(RaceTest, DuplicateIsRecognisedWhileTheFirstIsAtWork) {
  const v1::BeginRequest first = Request(0, 1);
  const BeginReply lease = ClientOf(0).Begin(first);
  ASSERT_THAT(lease, IsStarted());
  for (const int pause_ms : {0, 10, 500}) {
    absl::SleepFor(absl::Milliseconds(pause_ms));
    const BeginReply duplicate = ClientOf(1).Begin(Request(0, 2));
    ASSERT_THAT(duplicate, IsInProgress());
    const absl::Duration hint =
        FromProto(duplicate.message.in_progress().retry_after());
    EXPECT_GT(hint, absl::ZeroDuration());
    EXPECT_LE(hint,
              FromProto(duplicate.message.in_progress().lease_expires_at()) -
                  FromProto(duplicate.message.decided_at()));
  }
  ASSERT_THAT(ClientOf(0).Complete(
                  CompleteOf(first, lease.message.started().fence(), "done")),
              IsOk());
  EXPECT_THAT(ClientOf(1).Begin(Request(0, 3)), IsReplayOf("done"));
}

}  // namespace
}  // namespace dedupe::testing
