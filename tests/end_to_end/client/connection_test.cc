// Connections that end under the client library: of old age, with their server,
// or because they were idle. Its caller is not to see that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "dedupe/run_once.h"
#include "tests/end_to_end/access/guarded_server.h"
#include "tests/end_to_end/client/client_deployment.h"
#include "tests/support/idle_proxy.h"

namespace dedupe::testing {
namespace {

namespace dd = ::dedupe::client;

using ::testing::Ge;

dd::BeginRequest BeginFor(const std::string& key) {
  return {.client_id = "acme",
          .key = key,
          .operation = {},
          .fingerprint = "f",
          .attempt_id = dd::NewAttemptId(),
          .lease = {},
          .ttl = {}};
}

dd::CompleteRequest CompleteFor(const dd::BeginRequest& begin,
                                const dd::Started& started) {
  return {.client_id = begin.client_id,
          .key = begin.key,
          .attempt_id = begin.attempt_id,
          .fence = started.fence,
          .response = {.code = 200, .headers = {}, .body = "b"}};
}

// --- Old age -----------------------------------------------------------------

constexpr int kCallers = 4;
constexpr int kPairsOfEach = 250;

// 1000 pairs, evenly over that time, on connections that live for a second:
// all succeed, each at the first attempt.
void ExpectNoFailureOver(absl::Duration time) {
  Deployment deployment(
      {"--connection-age-max=1s", "--connection-age-grace=5s"});
  // Here it only counts the connections.
  const IdleProxy proxy(deployment.server().address(), absl::Minutes(10),
                        IdleProxy::Drop::kClose);
  const auto client = MakeLibraryClient(proxy.address());
  const absl::Time began = absl::Now();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kPairsOfEach; ++i) {
        absl::SleepFor(began + time * i / kPairsOfEach - absl::Now());
        const dd::BeginRequest begin = BeginFor(absl::StrCat(caller, "-", i));
        const auto started = Expect<dd::Started>(client->Begin(begin));
        EXPECT_EQ(started.attempt_number, 1);
        Expect<dd::Completed>(client->Complete(CompleteFor(begin, started)));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(SqlValue(deployment.url(),
                     "SELECT count(*) FROM dedupe.record WHERE completed_at IS "
                     "NOT NULL AND attempt_number = 1"),
            absl::StrCat(kCallers * kPairsOfEach));
  EXPECT_THAT(proxy.connections(), Ge(absl::ToInt64Seconds(time) / 2));
}

TEST(ConnectionAgeTest, GoodbyesOfTheServerAreInvisible) {
  ExpectNoFailureOver(absl::Seconds(12));
}

// By hand; the same for longer.
TEST(ConnectionAgeTest, DISABLED_GoodbyesAreInvisibleForAMinute) {
  ExpectNoFailureOver(absl::Seconds(60));
}

// --- Restarts ----------------------------------------------------------------

TEST(RestartTest, WorkThatOutlivesItsServerIsRecorded) {
  Deployment deployment;
  const auto client = MakeLibraryClient(deployment.server().address());
  int runs = 0;
  dd::RunOnceRequest request;
  request.client_id = "acme";
  request.key = "k";
  request.fingerprint = "f";
  const auto ran =
      Expect<dd::Ran>(dd::RunOnce(*client, request, [&](dd::Attempt&) {
        ++runs;
        deployment.server().Restart();
        return dd::Done{{.code = 200, .headers = {}, .body = "b"}};
      }));
  EXPECT_FALSE(ran.reconciled);
  Expect<dd::Replay>(
      dd::RunOnce(*client, request, [&](dd::Attempt&) -> dd::WorkResult {
        ++runs;
        return dd::NothingHappened{};
      }));
  EXPECT_EQ(runs, 1);
}

// --- Idleness ----------------------------------------------------------------

class DroppedConnectionTest
    : public EndToEndTest,
      public ::testing::WithParamInterface<IdleProxy::Drop> {};

TEST_P(DroppedConnectionTest, FirstCallAfterwardsSucceeds) {
  const IdleProxy proxy(Shared().server().address(), absl::Milliseconds(400),
                        GetParam());
  const auto client = MakeLibraryClient(proxy.address());
  for (int i = 0; i < 4; ++i) {
    const dd::BeginRequest begin = BeginFor(absl::StrCat(Key(), i));
    const auto started = Expect<dd::Started>(client->Begin(begin));
    EXPECT_EQ(started.attempt_number, 1);
    const int before = proxy.dropped();
    ASSERT_TRUE(GuardedServer::Await([&] { return proxy.dropped() > before; }));
    const auto completed =
        Expect<dd::Completed>(client->Complete(CompleteFor(begin, started)));
    EXPECT_FALSE(completed.already_completed);
  }
}

INSTANTIATE_TEST_SUITE_P(Drops, DroppedConnectionTest,
                         ::testing::Values(IdleProxy::Drop::kClose,
                                           IdleProxy::Drop::kReset));

using IdleConnectionTest = EndToEndTest;

// By hand. Pings each 30 s keep a connection that is not used; a load
// balancer's limit is a minute or more. The server bears them.
TEST_F(IdleConnectionTest, DISABLED_PingsKeepItForTenMinutes) {
  const IdleProxy proxy(Shared().server().address(), absl::Seconds(45),
                        IdleProxy::Drop::kClose);
  const auto client = MakeLibraryClient(proxy.address());
  dd::BeginRequest begin = BeginFor(Key());
  begin.lease = absl::Minutes(15);
  const auto started = Expect<dd::Started>(client->Begin(begin));
  absl::SleepFor(absl::Minutes(10));
  const absl::Duration took = TimeOf([&] {
    Expect<dd::Completed>(client->Complete(CompleteFor(begin, started)));
  });
  EXPECT_LE(took, absl::Seconds(1));
  EXPECT_EQ(proxy.dropped(), 0);
  // The server's own greatest age may have ended the first.
  EXPECT_LE(proxy.connections(), 2);
}

}  // namespace
}  // namespace dedupe::testing
