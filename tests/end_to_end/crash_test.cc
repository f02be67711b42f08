// The server is killed, the database is stopped, killed and started again,
// under load: what was acknowledged is kept, and service comes back by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/deployment.h"
#include "tests/end_to_end/recorded_load.h"

namespace dedupe::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Key;

// What operators are promised, once the database accepts connections.
constexpr absl::Duration kRecovery = absl::Seconds(5);
constexpr int kCallers = 32;

// The database of this file is killed, so it is not shared with other tests.
PostgresCluster& DurableCluster() {
  static PostgresCluster cluster({.durable = true, .settings = {}});
  return cluster;
}

struct Outage {
  const char* name;
  void (*stop)(PostgresCluster& cluster);
  // Before it is started again.
  absl::Duration away;
};

class DatabaseRestartTest : public ::testing::TestWithParam<Outage> {};

TEST_P(DatabaseRestartTest, NothingAcknowledgedIsLostAndServiceComesBack) {
  PostgresCluster& cluster = DurableCluster();
  Deployment deployment({}, cluster);
  const pid_t pid = deployment.server().process().pid();
  RecordedLoad load(deployment.client(), kCallers, GetParam().name);
  ASSERT_TRUE(load.WaitForProgress(1000, absl::Seconds(30)));

  GetParam().stop(cluster);
  absl::SleepFor(GetParam().away);
  cluster.Start();
  const absl::Time up = absl::Now();
  EXPECT_TRUE(load.WaitForProgress(1, kRecovery));
  const absl::Duration recovery = absl::Now() - up;
  EXPECT_TRUE(load.WaitForProgress(1000, absl::Seconds(30)));
  load.Stop();

  // A definite code would say that nothing changed, and INTERNAL that somebody
  // has to come.
  EXPECT_THAT(
      load.codes(),
      Each(Key(AnyOf(grpc::StatusCode::OK, grpc::StatusCode::UNAVAILABLE,
                     grpc::StatusCode::DEADLINE_EXCEEDED))));
  EXPECT_THAT(load.FindLost(deployment.client()), IsEmpty());
  EXPECT_TRUE(deployment.server().process().running());
  EXPECT_EQ(deployment.server().process().pid(), pid);
  auto codes = load.codes();
  absl::PrintF(
      "%s: %d completions acknowledged, none lost; serving %.2f s after the"
      " database came up (longest gap %.2f s); %d OK, %d UNAVAILABLE,"
      " %d DEADLINE_EXCEEDED\n",
      GetParam().name, load.completions(), absl::ToDoubleSeconds(recovery),
      absl::ToDoubleSeconds(load.longest_gap()), codes[grpc::StatusCode::OK],
      codes[grpc::StatusCode::UNAVAILABLE],
      codes[grpc::StatusCode::DEADLINE_EXCEEDED]);
}

INSTANTIATE_TEST_SUITE_P(
    All, DatabaseRestartTest,
    ::testing::Values(
        // For longer than calls are patient.
        Outage{"Fast", [](PostgresCluster& cluster) { cluster.Stop("fast"); },
               absl::Seconds(4)},
        Outage{"Immediate",
               [](PostgresCluster& cluster) { cluster.Stop("immediate"); },
               absl::ZeroDuration()},
        Outage{"Killed", [](PostgresCluster& cluster) { cluster.KillAll(); },
               absl::ZeroDuration()}),
    [](const auto& test) { return test.param.name; });

// A restart that is over before callers lose patience costs them nothing but
// time.
TEST(ShortOutageTest, RestartWithinACallsPatienceIsInvisible) {
  PostgresCluster& cluster = DurableCluster();
  Deployment deployment({}, cluster);
  RecordedLoad load(deployment.client(), kCallers, "short");
  ASSERT_TRUE(load.WaitForProgress(1000, absl::Seconds(30)));
  const absl::Time down = absl::Now();
  cluster.Stop("fast");
  cluster.Start();
  const absl::Duration outage = absl::Now() - down;
  EXPECT_TRUE(load.WaitForProgress(1000, absl::Seconds(30)));
  load.Stop();

  EXPECT_THAT(load.FindLost(deployment.client()), IsEmpty());
  // The server is patient for 3 s; one second is for finding out and coming
  // back.
  if (outage < absl::Seconds(2)) {
    EXPECT_THAT(load.codes(), Each(Key(grpc::StatusCode::OK)));
  }
  absl::PrintF("away for %.2f s, longest gap %.2f s, %d calls not OK\n",
               absl::ToDoubleSeconds(outage),
               absl::ToDoubleSeconds(load.longest_gap()),
               load.codes()[grpc::StatusCode::UNAVAILABLE]);
}

// Each backend is ended in turn: what is in flight is repeated by the server.
TEST(LostConnectionTest, TerminatedBackendsAreInvisible) {
  PostgresCluster& cluster = DurableCluster();
  Deployment deployment({}, cluster);
  RecordedLoad load(deployment.client(), kCallers, "backends");
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(load.WaitForProgress(100, absl::Seconds(30)));
    Sql(deployment.url(),
        absl::StrCat("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                     " WHERE datname = '",
                     deployment.database(),
                     "'"
                     " AND usename = '",
                     kServerRole, "'"));
  }
  EXPECT_TRUE(load.WaitForProgress(1000, absl::Seconds(30)));
  load.Stop();

  EXPECT_THAT(load.codes(), Each(Key(grpc::StatusCode::OK)));
  EXPECT_THAT(load.FindLost(deployment.client()), IsEmpty());
}

// A kill without warning must not leave locks for ever, nor lose any.
TEST(ServerCrashTest, LeasesOutliveTheServerThatGaveThem) {
  constexpr int kKeys = 20;
  Deployment deployment({}, DurableCluster());
  const auto request = [](int key, const std::string& attempt_id) {
    v1::BeginRequest begin = BeginOf(absl::StrCat("key-", key), attempt_id);
    *begin.mutable_lease() = ToProto(absl::Seconds(3));
    return begin;
  };
  std::vector<v1::Started> leases;
  for (int key = 0; key < kKeys; ++key) {
    const BeginReply reply =
        deployment.client().Begin(request(key, "attempt-1"));
    ASSERT_THAT(reply, IsStarted());
    leases.push_back(reply.message.started());
  }
  deployment.server().process().Signal(SIGKILL);
  EXPECT_EQ(deployment.server().process().Wait(), 128 + SIGKILL);
  deployment.server().Restart();

  Client client(deployment.server().address());
  for (int key = 0; key < kKeys; ++key) {
    EXPECT_THAT(client.Begin(request(key, "attempt-2")), IsInProgress());
  }
  WaitUntilPast(leases.back().lease_expires_at());
  for (int key = 0; key < kKeys; ++key) {
    const BeginReply second = client.Begin(request(key, "attempt-2"));
    ASSERT_THAT(second, IsStarted());
    EXPECT_GT(second.message.started().fence(),
              leases[static_cast<size_t>(key)].fence());
    EXPECT_THAT(client.Begin(request(key, "attempt-3")), IsInProgress());
  }
}

// Killed at work, again and again: what a caller repeats converges.
TEST(ServerCrashTest, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  Deployment deployment({}, DurableCluster());
  RecordedLoad load(deployment.client(), kCallers, "killed");
  absl::Duration slowest;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(load.WaitForProgress(300, absl::Seconds(30)));
    deployment.server().process().Signal(SIGKILL);
    deployment.server().process().Wait();
    const absl::Time down = absl::Now();
    deployment.server().Restart();
    EXPECT_TRUE(load.WaitForProgress(1, kRecovery));
    slowest = std::max(slowest, absl::Now() - down);
  }
  load.Stop();

  EXPECT_THAT(
      load.codes(),
      Each(Key(AnyOf(grpc::StatusCode::OK, grpc::StatusCode::UNAVAILABLE,
                     grpc::StatusCode::DEADLINE_EXCEEDED))));
  EXPECT_THAT(load.FindLost(deployment.client()), IsEmpty());
  absl::PrintF(
      "killed 5 times: %d completions acknowledged, none lost;"
      " at most %.2f s from the kill to the next completion\n",
      load.completions(), absl::ToDoubleSeconds(slowest));
}

}  // namespace
}  // namespace dedupe::testing
