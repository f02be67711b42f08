// The end of a server: it says so first, goes on for as long as balancers need
// to turn away, finishes what it has begun, and ends with 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/deployment.h"
#include "tests/end_to_end/health_client.h"
#include "tests/end_to_end/row_lock.h"

namespace dedupe::testing {
namespace {

using ::testing::AnyOf;

constexpr auto kUnavailable = grpc::StatusCode::UNAVAILABLE;
// What a busy machine may add to any of the times here.
constexpr absl::Duration kSlack = absl::Seconds(1);

class DrainTest : public ::testing::Test {
 protected:
  // A released key: the next Begin changes the record, for which it needs the
  // record's lock.
  static void Free(Client& client, const std::string& key) {
    const v1::BeginRequest begin = BeginOf(key, "attempt-0");
    const BeginReply lease = client.Begin(begin);
    ASSERT_THAT(lease, IsStarted());
    ASSERT_THAT(
        client.Release(ReleaseOf(begin, lease.message.started().fence())),
        IsOk());
  }
};

TEST_F(DrainTest, HealthTurnsFirstThenCallsAreRefusedThenItEnds) {
  Deployment deployment({"--drain-delay=1s", "--drain-grace=20s"});
  const HealthClient health(deployment.server().address());
  Client& client = deployment.client();
  Free(client, "locked");
  auto lock = std::make_unique<RowLock>(deployment.url(), "locked");
  PendingBegin in_flight(client, BeginOf("locked", "attempt-1"),
                         absl::Seconds(20));
  ASSERT_FALSE(in_flight.WaitFor(absl::Milliseconds(200)));

  const absl::Time signalled = absl::Now();
  deployment.server().process().Signal(SIGTERM);
  const absl::Duration turned =
      health.WaitFor("readiness", HealthState::kNotServing, absl::Seconds(5));
  EXPECT_LE(turned, kSlack);
  EXPECT_EQ(health.Check("liveness"), HealthState::kServing);

  BeginReply reply;
  absl::Duration served;
  for (int i = 0; absl::Now() - signalled < absl::Seconds(10); ++i) {
    reply = client.Begin(BeginOf(absl::StrCat("key-", i), "attempt-1"));
    if (!reply.status.ok()) break;
    ASSERT_THAT(reply, IsStarted());
    served = absl::Now() - signalled;
    absl::SleepFor(absl::Milliseconds(10));
  }
  // For about as long as the delay.
  EXPECT_GE(served, absl::Milliseconds(700));
  EXPECT_LE(served, absl::Seconds(1) + kSlack);
  EXPECT_THAT(reply, IsRefused(kUnavailable, "DRAINING"));
  EXPECT_GT(DetailsOf(reply.status).retry_delay, absl::ZeroDuration());

  // What is in flight is finished, and then nothing is waited for.
  EXPECT_FALSE(in_flight.done());
  lock.reset();
  EXPECT_THAT(in_flight.reply(), IsStarted());
  const absl::Time finished = absl::Now();
  EXPECT_EQ(deployment.server().process().Wait(), 0);
  EXPECT_LE(absl::Now() - finished, absl::Seconds(1) + kSlack);
  absl::PrintF(
      "NOT_SERVING after %.2f s, served for %.2f s, then DRAINING;"
      " ended %.2f s after the last call\n",
      absl::ToDoubleSeconds(turned), absl::ToDoubleSeconds(served),
      absl::ToDoubleSeconds(absl::Now() - finished));
}

// A handler that does not finish must not hold up the end.
TEST_F(DrainTest, LockedRowDoesNotOutlastTheGrace) {
  Deployment deployment({"--drain-grace=2s"}, PostgresCluster::Shared(),
                        kLosesResults);
  Free(deployment.client(), "locked");
  const RowLock lock(deployment.url(), "locked");
  std::vector<std::unique_ptr<PendingBegin>> blocked;
  for (int i = 0; i < 10; ++i) {
    blocked.push_back(std::make_unique<PendingBegin>(
        deployment.client(), BeginOf("locked", absl::StrCat("caller-", i)),
        absl::Seconds(30)));
  }
  ASSERT_FALSE(blocked.back()->WaitFor(absl::Milliseconds(300)));

  const absl::Time signalled = absl::Now();
  deployment.server().process().Signal(SIGTERM);
  EXPECT_EQ(deployment.server().process().Wait(), 0);
  const absl::Duration took = absl::Now() - signalled;
  EXPECT_GE(took, absl::Seconds(2));
  EXPECT_LE(took, absl::Seconds(2) + absl::Seconds(1) + kSlack);
  for (const auto& call : blocked) {
    EXPECT_THAT(call->reply().status.error_code(),
                AnyOf(kUnavailable, grpc::StatusCode::CANCELLED));
  }
  absl::PrintF("with 10 calls blocked and 2 s of grace: ended after %.2f s\n",
               absl::ToDoubleSeconds(took));
  // The database notices within what a lock is waited for.
  const std::string backends = absl::StrCat(
      "SELECT count(*) FROM pg_stat_activity WHERE usename = '", kServerRole,
      "' AND datname = '", deployment.database(), "'");
  const absl::Time until = absl::Now() + absl::Seconds(5);
  while (SqlValue(deployment.url(), backends) != "0" && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(SqlValue(deployment.url(), backends), "0");
}

TEST_F(DrainTest, WaitingBeginsAreAnsweredAtOnce) {
  Deployment deployment;
  ASSERT_THAT(deployment.client().Begin(BeginOf("key", "attempt-0")),
              IsStarted());
  v1::BeginRequest waiting = BeginOf("key", "attempt-1");
  *waiting.mutable_wait() = ToProto(absl::Seconds(30));
  PendingBegin pending(deployment.client(), waiting, absl::Seconds(40));
  ASSERT_FALSE(pending.WaitFor(absl::Milliseconds(200)));

  deployment.server().process().Signal(SIGTERM);
  EXPECT_TRUE(pending.WaitFor(absl::Seconds(3)));
  EXPECT_THAT(pending.reply(),
              AnyOf(IsInProgress(), IsRefused(kUnavailable, "DRAINING")));
  EXPECT_EQ(deployment.server().process().Wait(), 0);
}

TEST_F(DrainTest, SecondSignalEndsTheDelay) {
  Deployment deployment({"--drain-delay=1m"});
  Process& process = deployment.server().process();
  process.Signal(SIGTERM);
  ASSERT_TRUE(process.WaitForOutput("\"event\":\"draining\""));
  EXPECT_EQ(process.Wait(absl::Milliseconds(500)), -1);

  const absl::Time signalled = absl::Now();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_LE(absl::Now() - signalled, absl::Seconds(2) + kSlack);
}

TEST_F(DrainTest, InterruptDrainsLikeTermination) {
  Deployment deployment;
  deployment.server().process().Signal(SIGINT);
  EXPECT_EQ(deployment.server().process().Wait(), 0);
  EXPECT_TRUE(
      deployment.server().process().WaitForOutput("\"event\":\"stopped\""));
}

// Whoever stops a server that has no database must not have to kill it.
TEST_F(DrainTest, EndsWithoutADatabaseToo) {
  PostgresCluster cluster({});
  Deployment deployment({"--drain-grace=2s"}, cluster, kLosesResults);
  cluster.Stop("immediate");
  PendingBegin open(deployment.client(), BeginOf("key", "attempt-1"),
                    absl::Seconds(20));
  const absl::Time signalled = absl::Now();
  deployment.server().process().Signal(SIGTERM);
  EXPECT_EQ(deployment.server().process().Wait(), 0);
  EXPECT_LE(absl::Now() - signalled, absl::Seconds(3) + kSlack);
  EXPECT_EQ(open.reply().status.error_code(), kUnavailable);
}

}  // namespace
}  // namespace dedupe::testing
