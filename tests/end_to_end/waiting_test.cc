// Begins that wait: they are answered when another attempt settles, whichever
// of two servers each of them asked, and cost nothing once they are gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/deployment.h"

namespace dedupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

using PendingBegins = std::vector<std::unique_ptr<PendingBegin>>;

constexpr absl::Duration kLongWait = absl::Seconds(20);
constexpr absl::Duration kPatience = absl::Seconds(25);

class WaitingTest : public EndToEndTest {
 protected:
  static Client& Here() { return Shared().client(); }
  static Client& There() {
    static Client client(OtherServer().address());
    return client;
  }
  static ServerProcess& OtherServer() {
    Shared();
    static ServerProcess server({.database_url = Shared().server_url(),
                                 .settings = {},
                                 .environment = {}});
    return server;
  }

  static v1::BeginRequest Request(const std::string& attempt_id, int key = 0) {
    return BeginOf(Key(absl::StrCat("/", key)), attempt_id);
  }
  static v1::BeginRequest Waiting(const std::string& attempt_id, int key = 0,
                                  absl::Duration wait = kLongWait) {
    v1::BeginRequest request = Request(attempt_id, key);
    *request.mutable_wait() = ToProto(wait);
    return request;
  }

  // So many, in turn at each of the two servers.
  static PendingBegins Queue(int callers) {
    return Queue(callers, 0, Here(), There());
  }
  static PendingBegins Queue(int callers, int key, Client& here,
                             Client& there) {
    PendingBegins pending;
    for (int i = 0; i < callers; ++i) {
      pending.push_back(std::make_unique<PendingBegin>(
          i % 2 == 0 ? here : there, Waiting(absl::StrCat("attempt-", i), key),
          kPatience));
    }
    return pending;
  }

  // Waits until one of them is done that was not before, and returns which.
  static int NextDone(const PendingBegins& pending,
                      const std::vector<bool>& seen) {
    const absl::Time until = absl::Now() + absl::Seconds(10);
    while (absl::Now() < until) {
      for (size_t i = 0; i < pending.size(); ++i) {
        if (!seen[i] && pending[i]->done()) return static_cast<int>(i);
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
    return -1;
  }

  static size_t CountDone(const PendingBegins& pending) {
    return static_cast<size_t>(
        std::count_if(pending.begin(), pending.end(),
                      [](const auto& call) { return call->done(); }));
  }
};

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

TEST_F(WaitingTest, AllWhoWaitReplayTheWinnersResponse) {
  constexpr int kKeys = 40;
  constexpr int kCallers = 64;
  // A connection has 500 waits at most, so these keys share several.
  constexpr int kKeysOfAConnection = 10;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<PendingBegins> pending;
  for (int key = 0; key < kKeys; ++key) {
    if (key % kKeysOfAConnection == 0) {
      clients.push_back(std::make_unique<Client>(Shared().server().address()));
      clients.push_back(std::make_unique<Client>(OtherServer().address()));
    }
    pending.push_back(
        Queue(kCallers, key, *clients[clients.size() - 2], *clients.back()));
  }

  for (int key = 0; key < kKeys; ++key) {
    const PendingBegins& of_key = pending[static_cast<size_t>(key)];
    const int winner = NextDone(of_key, std::vector<bool>(kCallers));
    ASSERT_GE(winner, 0);
    const BeginReply& lease = of_key[static_cast<size_t>(winner)]->reply();
    ASSERT_THAT(lease, IsStarted());
    // Whoever else was to start would have by now.
    if (key == 0) absl::SleepFor(absl::Milliseconds(300));
    EXPECT_EQ(CountDone(of_key), 1u);
    const CompleteReply completion = Here().Complete(CompleteOf(
        Request(absl::StrCat("attempt-", winner), key),
        lease.message.started().fence(), absl::StrCat("response ", key)));
    ASSERT_THAT(completion, IsOk());
    for (int i = 0; i < kCallers; ++i) {
      if (i == winner) continue;
      const BeginReply& reply = of_key[static_cast<size_t>(i)]->reply();
      ASSERT_THAT(reply, IsReplayOf(absl::StrCat("response ", key)));
      EXPECT_EQ(FromProto(reply.message.replay().completed_at()),
                FromProto(completion.message.completed_at()));
    }
  }
}

TEST_F(WaitingTest, ReleaseStartsExactlyOneOfThem) {
  constexpr int kCallers = 16;
  const PendingBegins pending = Queue(kCallers);
  std::vector<bool> seen(kCallers);
  int64_t last_fence = 0;
  for (int turn = 1; turn <= kCallers; ++turn) {
    const int holder = NextDone(pending, seen);
    ASSERT_GE(holder, 0) << "nobody started in turn " << turn;
    seen[static_cast<size_t>(holder)] = true;
    const BeginReply& lease = pending[static_cast<size_t>(holder)]->reply();
    ASSERT_THAT(lease, IsStarted());
    EXPECT_GT(lease.message.started().fence(), last_fence);
    EXPECT_FALSE(lease.message.started().taken_over());
    last_fence = lease.message.started().fence();

    // Several ticks: a second one would have started meanwhile.
    absl::SleepFor(absl::Milliseconds(100));
    EXPECT_EQ(CountDone(pending), static_cast<size_t>(turn));
    EXPECT_THAT(Here().Release(ReleaseOf(
                    Request(absl::StrCat("attempt-", holder)), last_fence)),
                IsOk());
  }
}

// Handed on as fast as it goes: two holders at once would show as LEASE_LOST.
TEST_F(WaitingTest, KeyIsHandedOnFromOneToTheNext) {
  constexpr int kCallers = 64;
  const PendingBegins pending = Queue(kCallers);
  std::vector<bool> seen(kCallers);
  const absl::Time start = absl::Now();
  for (int turn = 0; turn < kCallers; ++turn) {
    const int holder = NextDone(pending, seen);
    ASSERT_GE(holder, 0) << "nobody started in turn " << turn;
    seen[static_cast<size_t>(holder)] = true;
    const BeginReply& lease = pending[static_cast<size_t>(holder)]->reply();
    ASSERT_THAT(lease, IsStarted());
    ASSERT_THAT(
        (turn % 2 == 0 ? Here() : There())
            .Release(ReleaseOf(Request(absl::StrCat("attempt-", holder)),
                               lease.message.started().fence())),
        IsOk());
  }
  absl::PrintF("one release hands the key on in %.1f ms\n",
               absl::ToDoubleMilliseconds(absl::Now() - start) / kCallers);
}

// From the answer of Complete to the answer of the waiting Begin, milliseconds.
std::vector<double> WakeTimes(Client& completes, Client& waits,
                              const std::string& name) {
  std::vector<double> times;
  for (int key = 0; key < 21; ++key) {
    const v1::BeginRequest first =
        BeginOf(absl::StrCat(name, key), "attempt-1");
    const BeginReply lease = completes.Begin(first);
    EXPECT_THAT(lease, IsStarted());
    v1::BeginRequest second = first;
    second.set_attempt_id("attempt-2");
    *second.mutable_wait() = ToProto(kLongWait);
    PendingBegin pending(waits, second, kPatience);
    EXPECT_FALSE(pending.WaitFor(absl::Milliseconds(60)));
    EXPECT_THAT(completes.Complete(
                    CompleteOf(first, lease.message.started().fence(), "done")),
                IsOk());
    const absl::Time completed = absl::Now();
    EXPECT_THAT(pending.reply(), IsReplayOf("done"));
    times.push_back(absl::ToDoubleMilliseconds(pending.done_at() - completed));
  }
  return times;
}

// A tenth of a second is what people do not notice. The slowest may have met a
// busy machine.
void ExpectPrompt(const char* where, const std::vector<double>& times) {
  const double slowest = *std::max_element(times.begin(), times.end());
  absl::PrintF("woken %s after %.1f ms (median), %.1f ms (slowest)\n", where,
               Median(times), slowest);
  EXPECT_LE(Median(times), 100);
  EXPECT_LE(slowest, 1000);
}

TEST_F(WaitingTest, WokenWhereTheCompletionPassed) {
  ExpectPrompt("on the same server", WakeTimes(Here(), Here(), Key()));
}

TEST_F(WaitingTest, WokenWhereTheCompletionDidNotPass) {
  ExpectPrompt("on the other server", WakeTimes(There(), Here(), Key()));
}

TEST_F(WaitingTest, WaitEndsInProgress) {
  ASSERT_THAT(Here().Begin(Request("attempt-1")), IsStarted());
  const absl::Time start = absl::Now();
  EXPECT_THAT(Here().Begin(Waiting("attempt-2", 0, absl::Milliseconds(400))),
              IsInProgress());
  EXPECT_THAT(absl::Now() - start,
              AllOf(Ge(absl::Milliseconds(400)), Le(absl::Seconds(2))));
}

// The caller is to hear what is known rather than nothing.
TEST_F(WaitingTest, WaitBeyondTheDeadlineIsCut) {
  ASSERT_THAT(Here().Begin(Request("attempt-1")), IsStarted());
  PendingBegins pending;
  for (int i = 0; i < 20; ++i) {
    pending.push_back(std::make_unique<PendingBegin>(
        i % 2 == 0 ? Here() : There(), Waiting(absl::StrCat("waiter-", i)),
        absl::Seconds(1)));
  }
  for (const auto& call : pending) EXPECT_THAT(call->reply(), IsInProgress());
}

// On a busy machine not even that can be answered in so short a time, always.
TEST_F(WaitingTest, DeadlineTooShortForAnyWaitIsAnsweredAtOnce) {
  ASSERT_THAT(Here().Begin(Request("attempt-1")), IsStarted());
  int answered = 0;
  for (int i = 0; i < 10; ++i) {
    const BeginReply reply =
        Here().Begin(Waiting("attempt-2"), absl::Milliseconds(140));
    if (reply.status.ok()) {
      EXPECT_THAT(reply, IsInProgress());
      ++answered;
    }
  }
  EXPECT_GE(answered, 3);
}

// A call without a deadline gets ten seconds, and its wait on top of them.
TEST_F(WaitingTest, WaitOutlastsTheServersOwnDeadline) {
  const absl::Duration wait = absl::Milliseconds(10'100);
  ASSERT_THAT(Here().Begin(Request("attempt-1")), IsStarted());
  grpc::ClientContext without_deadline;
  v1::BeginResponse response;
  const absl::Time start = absl::Now();
  const grpc::Status status = Here().stub().Begin(
      &without_deadline, Waiting("attempt-2", 0, wait), &response);
  EXPECT_TRUE(status.ok()) << Describe(status);
  EXPECT_TRUE(response.has_in_progress());
  EXPECT_GE(absl::Now() - start, wait);
}

TEST_F(WaitingTest, OtherRequestIsToldSoAtOnce) {
  ASSERT_THAT(Here().Begin(Request("attempt-1")), IsStarted());
  v1::BeginRequest other = Waiting("attempt-2");
  other.set_fingerprint("another request");
  const absl::Time start = absl::Now();
  EXPECT_THAT(There().Begin(other), IsMismatch());
  EXPECT_LE(absl::Now() - start, absl::Seconds(2));
}

TEST_F(WaitingTest, OneOfThemTakesOverALapsedLease) {
  v1::BeginRequest first = Request("attempt-1");
  *first.mutable_lease() = ToProto(absl::Milliseconds(500));
  const BeginReply lease = Here().Begin(first);
  ASSERT_THAT(lease, IsStarted());
  PendingBegins pending;
  for (int i = 0; i < 8; ++i) {
    pending.push_back(std::make_unique<PendingBegin>(
        i % 2 == 0 ? Here() : There(), Waiting(absl::StrCat("heir-", i)),
        absl::Seconds(3)));
  }
  int started = 0;
  for (const auto& call : pending) {
    if (call->reply().message.has_started()) {
      ++started;
      EXPECT_TRUE(call->reply().message.started().taken_over());
      const absl::Duration late =
          FromProto(call->reply().message.decided_at()) -
          FromProto(lease.message.started().lease_expires_at());
      EXPECT_GE(late, absl::ZeroDuration());
      absl::PrintF("taken over %.0f ms after the lease\n",
                   absl::ToDoubleMilliseconds(late));
    } else {
      EXPECT_THAT(call->reply(), IsInProgress());
    }
  }
  EXPECT_EQ(started, 1);
}

TEST_F(WaitingTest, LapseUnderHoldEndsEveryWait) {
  v1::BeginRequest first = Request("attempt-1");
  *first.mutable_lease() = ToProto(absl::Milliseconds(300));
  first.set_on_lease_expiry(v1::ON_LEASE_EXPIRY_HOLD);
  ASSERT_THAT(Here().Begin(first), IsStarted());
  PendingBegin here(Here(), Waiting("attempt-2"), kPatience);
  PendingBegin there(There(), Waiting("attempt-3"), kPatience);
  EXPECT_THAT(here.reply(), IsInDoubt());
  EXPECT_THAT(there.reply(), IsInDoubt());
}

// Room for four: what counts is that the cancelled make room again.
TEST_F(WaitingTest, CancelledWaitersMakeRoom) {
  Deployment narrow({"--waiters-max=4"});
  ASSERT_THAT(narrow.client().Begin(Request("attempt-1")), IsStarted());
  PendingBegins pending;
  for (int i = 0; i < 4; ++i) {
    pending.push_back(std::make_unique<PendingBegin>(
        narrow.client(), Waiting(absl::StrCat("waiter-", i)), kPatience));
    ASSERT_FALSE(pending.back()->WaitFor(absl::Milliseconds(100)));
  }
  const absl::Time start = absl::Now();
  ASSERT_THAT(narrow.client().Begin(Waiting("waiter-4")), IsInProgress());
  EXPECT_LE(absl::Now() - start, absl::Seconds(2));

  for (const auto& call : pending) call->Cancel();
  for (const auto& call : pending) {
    EXPECT_EQ(call->reply().status.error_code(), grpc::StatusCode::CANCELLED);
  }
  // The server frees them within a tick; until then there is no room.
  const absl::Time until = absl::Now() + absl::Seconds(5);
  bool waits = false;
  while (!waits && absl::Now() < until) {
    PendingBegin next(narrow.client(), Waiting("waiter-5"), kPatience);
    waits = !next.WaitFor(absl::Milliseconds(300));
  }
  EXPECT_TRUE(waits);
}

}  // namespace
}  // namespace dedupe::testing
