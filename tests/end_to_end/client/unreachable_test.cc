// No call takes longer than its caller's time, whatever is at the other end,
// and a server that comes back is found again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "dedupe/client.h"
#include "dedupe/run_once.h"
#include "tests/end_to_end/client/bad_peer.h"
#include "tests/end_to_end/client/client_deployment.h"

namespace dedupe::testing {
namespace {

namespace dd = ::dedupe::client;

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

dd::BeginRequest BeginOf(const std::string& key) {
  return {.client_id = "acme",
          .key = key,

          .fingerprint = "f",
          .attempt_id = dd::NewAttemptId(),

          .ttl = {}};
}

// What is at the address of a target.
struct Place {
  std::string name;
  std::string target;
};

TEST(UnreachableTest, NoCallOutlastsItsTimeout) {
  const BadPeer closes("", BadPeer::After::kClose);
  const BadPeer silent("", BadPeer::After::kSilence);
  const BadPeer web("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
                    BadPeer::After::kClose);
  const BadPeer noise(std::string(100'000, '\x7f'), BadPeer::After::kSilence);
  const std::vector<Place> places = {
      {"nobody", absl::StrCat("127.0.0.1:", FreePort())},
      {"closes", closes.address()},
      {"silent", silent.address()},
      {"a web server", web.address()},
      {"noise", noise.address()},
      {"no such name", "dns:///nowhere.invalid:7733"},
      {"no socket", "unix:/nowhere/socket"}};
  for (const Place& place : places) {
    SCOPED_TRACE(place.name);
    const auto client = MakeLibraryClient(place.target);
    const absl::Duration took = TimeOf([&] {
      Expect<dd::Unknown>(
          client->Begin(BeginOf("k"), {.timeout = absl::Milliseconds(700)}));
    });
    EXPECT_LE(took, absl::Milliseconds(950));
  }
}

// The whole time is used: a server may come up in it.
TEST(UnreachableTest, ServerThatComesUpInTimeIsReached) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const std::string url =
      cluster.Url(cluster.CreateMigratedDatabase(), kServerRole);
  ServerProcess server({.database_url = url,
                        .settings = {},
                        .environment = {},
                        .wait_until_ready = true});
  server.process().Signal(SIGKILL);
  server.process().Wait();
  const auto client = MakeLibraryClient(server.address());
  std::thread starter([&] {
    absl::SleepFor(absl::Seconds(1));
    server.Restart();
  });
  Expect<dd::Started>(client->Begin(BeginOf("k")));
  starter.join();
}

// The channel looks ready but is dead: the call finds the new server, and the
// work is not begun again.
TEST(UnreachableTest, RestartBetweenCallsIsInvisible) {
  Deployment deployment;
  const auto client = MakeLibraryClient(deployment.server().address());
  for (int i = 0; i < 10; ++i) {
    const dd::BeginRequest begin = BeginOf(absl::StrCat("k", i));
    const auto started = Expect<dd::Started>(client->Begin(begin));
    deployment.server().Restart();
    const auto completed = Expect<dd::Completed>(
        client->Complete({.client_id = "acme",
                          .key = begin.key,
                          .attempt_id = begin.attempt_id,
                          .fence = started.fence,
                          .response = {.code = 200, .body = "b"}}));
    EXPECT_FALSE(completed.already_completed);
  }
}

// Two servers behind one name, one of them stopped and started in turn.
TEST(UnreachableTest, OneOfTwoServersIsEnough) {
  Deployment first;
  ServerProcess second(
      {.database_url = first.server_url(), .settings = {}, .environment = {}});
  const auto client = MakeLibraryClient(
      absl::StrCat("ipv4:", first.server().address(), ",", second.address()));
  for (int round = 0; round < 6; ++round) {
    ServerProcess& stopped = round % 2 == 0 ? first.server() : second;
    std::thread stopper([&] {
      stopped.process().Signal(SIGTERM);
      EXPECT_EQ(stopped.process().Wait(), 0);
    });
    for (int i = 0; i < 50; ++i) {
      const absl::Duration took = TimeOf([&] {
        Expect<dd::Started>(
            client->Begin(BeginOf(absl::StrCat("k", round, "-", i))));
      });
      EXPECT_LE(took, absl::Seconds(3));
    }
    stopper.join();
    stopped.Restart();
  }
}

// Goodbyes cross with new calls; nobody is to see that.
TEST(UnreachableTest, ConnectionsThatAreClosedForTheirAgeAreInvisible) {
  Deployment deployment;
  RelayServer relay(deployment.server().address(), absl::Milliseconds(300));
  const auto client = MakeLibraryClient(relay.address());
  const absl::Time end = absl::Now() + absl::Seconds(6);
  std::atomic<int> runs = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; absl::Now() < end; ++i) {
        dd::RunOnceRequest request;
        request.client_id = "acme";
        request.key = absl::StrCat(caller, "-", i);
        request.fingerprint = "f";
        Expect<dd::Ran>(dd::RunOnce(*client, request, [&](dd::Attempt&) {
          ++runs;
          return dd::Done{{.code = 200, .body = "b"}};
        }));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(runs, 100);
  EXPECT_EQ(SqlValue(deployment.url(), "SELECT count(*) FROM dedupe.record"),
            absl::StrCat(runs.load()));
}

// Setting the machine's clock while a call is being repeated neither stretches
// nor shortens it. A program of its own, because the clock that libfaketime
// shows is set through a file.
class SetClockTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SetClockTest, BudgetIsOfTheSteadyClock) {
  const ProcessResult found = RunProcess({"faketime", "-f", "+0", "env"});
  if (found.exit_code != 0) {
    GTEST_SKIP() << "faketime is not installed; apt-get install faketime";
  }
  std::string preload;
  for (const absl::string_view line :
       absl::StrSplit(found.standard_output, '\n')) {
    if (absl::StartsWith(line, "LD_PRELOAD="))
      preload = std::string(line.substr(11));
  }
  const std::string clock = absl::StrCat(ScratchDirectory(), "/clock");
  std::ofstream(clock) << "+0";
  Process probe(
      {absl::StrCat(BuildDirectory(), "/tests/end_to_end/client/client_probe"),
       absl::StrCat("127.0.0.1:", FreePort())},
      {{"LD_PRELOAD", preload},
       {"FAKETIME_TIMESTAMP_FILE", clock},
       {"FAKETIME_NO_CACHE", "1"},
       {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
       {"ASAN_OPTIONS", "verify_asan_link_order=0"}},
      absl::StrCat(ScratchDirectory(), "/probe.log"));
  ASSERT_TRUE(probe.WaitForOutput("calling"));
  absl::SleepFor(absl::Seconds(1));
  std::ofstream(clock) << GetParam();
  ASSERT_EQ(probe.Wait(absl::Seconds(20)), 0) << probe.Output();
  // Such as "calling\nwall 3603.1 steady 3.0\n".
  double wall = 0;
  double steady = 0;
  ASSERT_EQ(sscanf(probe.Output().c_str(), "calling\nwall %lf steady %lf",
                   &wall, &steady),
            2)
      << probe.Output();
  EXPECT_GT(std::abs(wall), 3000) << "the clock was not set";
  EXPECT_THAT(steady, AllOf(Ge(2.5), Le(4.0)));
}

INSTANTIATE_TEST_SUITE_P(Steps, SetClockTest,
                         ::testing::Values("-3600s", "+3600s"));

}  // namespace
}  // namespace dedupe::testing
