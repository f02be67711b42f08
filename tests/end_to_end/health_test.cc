// Health: alive is not ready. And what a server does that finds no database, a
// wrong one, or its address taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/end_to_end/deployment.h"
#include "tests/end_to_end/health_client.h"
#include "tests/support/memory_use.h"

namespace dedupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The names that follow the database.
const char* const kReadyNames[] = {"readiness", "", "dedupe.v1.DedupeService"};

class HealthTest : public EndToEndTest {
 protected:
  // What `dedupe serve` prints and returns when it gives up by itself.
  static ProcessResult Serve(const std::string& database_url,
                             const std::string& address = "127.0.0.1:0") {
    return RunProcess({DedupeBinary(), "serve", "--listen-address=" + address},
                      {{"DEDUPE_DATABASE_URL", database_url}},
                      absl::Seconds(20));
  }

  static std::string MigratedUrl() {
    PostgresCluster& cluster = PostgresCluster::Shared();
    return cluster.Url(cluster.CreateMigratedDatabase());
  }
};

// One endpoint for both would restart every server for a blip of the database.
TEST_F(HealthTest, DatabaseDecidesReadinessAndNotLiveness) {
  PostgresCluster cluster({});
  Deployment deployment({}, cluster);
  const HealthClient health(deployment.server().address());
  const pid_t pid = deployment.server().process().pid();
  EXPECT_EQ(health.Check("liveness"), HealthState::kServing);
  for (const char* name : kReadyNames) {
    EXPECT_EQ(health.Check(name), HealthState::kServing) << name;
  }

  cluster.Stop("fast");
  const absl::Duration noticed =
      health.WaitFor("readiness", HealthState::kNotServing, absl::Seconds(10));
  EXPECT_LE(noticed, absl::Seconds(3));
  const absl::Time until = absl::Now() + absl::Seconds(4);
  while (absl::Now() < until) {
    ASSERT_EQ(health.Check("liveness"), HealthState::kServing);
    for (const char* name : kReadyNames) {
      ASSERT_EQ(health.Check(name), HealthState::kNotServing) << name;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  // Once it is known to be away nobody waits for it.
  const absl::Time start = absl::Now();
  EXPECT_THAT(deployment.client().Begin(BeginOf(Key(), "attempt-1")),
              IsRefused(grpc::StatusCode::UNAVAILABLE, "STORE_DOWN"));
  EXPECT_LE(absl::Now() - start, absl::Seconds(1));

  cluster.Start();
  const absl::Duration recovered =
      health.WaitFor("readiness", HealthState::kServing, absl::Seconds(20));
  EXPECT_LE(recovered, absl::Seconds(5));
  EXPECT_THAT(deployment.client().Begin(BeginOf(Key(), "attempt-1")),
              IsStarted());
  EXPECT_TRUE(deployment.server().process().running());
  EXPECT_EQ(deployment.server().process().pid(), pid);
  absl::PrintF(
      "NOT_SERVING %.2f s after the stop, SERVING %.2f s after the"
      " start\n",
      absl::ToDoubleSeconds(noticed), absl::ToDoubleSeconds(recovered));
}

TEST_F(HealthTest, OtherNamesAreUnknown) {
  const HealthClient health(Shared().server().address());
  EXPECT_EQ(health.Check("grpc.health.v1.Health"),
            HealthState::kUnknownService);
  EXPECT_EQ(health.Check("nothing"), HealthState::kUnknownService);
}

TEST_F(HealthTest, DatabaseThatIsAwayAtTheStartIsWaitedFor) {
  PostgresCluster cluster({});
  const std::string url =
      cluster.Url(cluster.CreateMigratedDatabase(), kServerRole);
  cluster.Stop("fast");
  ServerProcess server({.database_url = url,
                        .settings = {},
                        .environment = {},
                        .wait_until_ready = false});
  const HealthClient health(server.address());
  Client client(server.address());
  EXPECT_EQ(health.Check("liveness"), HealthState::kServing);
  EXPECT_EQ(health.Check("readiness"), HealthState::kNotServing);
  EXPECT_THAT(client.Begin(BeginOf(Key(), "attempt-1")),
              IsRefused(grpc::StatusCode::UNAVAILABLE, "STORE_DOWN"));

  cluster.Start();
  EXPECT_LE(
      health.WaitFor("readiness", HealthState::kServing, absl::Seconds(20)),
      absl::Seconds(5));
  EXPECT_THAT(client.Begin(BeginOf(Key(), "attempt-1")), IsStarted());
}

TEST_F(HealthTest, MissingSchemaIsRefusedWithTheCommandToRun) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const ProcessResult result = Serve(cluster.Url(cluster.CreateDatabase()));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr("no schema"), HasSubstr("run `dedupe migrate`")));
}

TEST_F(HealthTest, OlderSchemaIsRefusedWithTheCommandToRun) {
  const std::string url = MigratedUrl();
  Sql(url,
      "DELETE FROM dedupe.schema_version WHERE version ="
      " (SELECT max(version) FROM dedupe.schema_version)");
  const ProcessResult result = Serve(url);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr("is at migration"), HasSubstr("needs"),
                    HasSubstr("run `dedupe migrate`")));
}

TEST_F(HealthTest, SchemaThatIsTooNewIsRefused) {
  const std::string url = MigratedUrl();
  Sql(url, "INSERT INTO dedupe.schema_version VALUES (99, 'later', 99)");
  const ProcessResult result = Serve(url);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.standard_error,
      AllOf(HasSubstr("migration 99"), HasSubstr("run the `dedupe serve`")));
}

TEST_F(HealthTest, NewerSchemaThatAllowsThisServerIsServed) {
  Deployment deployment;
  Sql(deployment.url(),
      "INSERT INTO dedupe.schema_version SELECT 99, 'later', max(version)"
      " FROM dedupe.schema_version");
  deployment.server().Restart();
  EXPECT_EQ(HealthClient(deployment.server().address()).Check("readiness"),
            HealthState::kServing);
}

// A migration that this server does not survive takes it out of service.
TEST_F(HealthTest, SchemaThatMovesOnMakesTheServerUnready) {
  Deployment deployment;
  const HealthClient health(deployment.server().address());
  Sql(deployment.url(),
      "INSERT INTO dedupe.schema_version VALUES (99, 'later', 99)");
  EXPECT_LE(
      health.WaitFor("readiness", HealthState::kNotServing, absl::Seconds(20)),
      absl::Seconds(3));
  EXPECT_EQ(health.Check("liveness"), HealthState::kServing);
  EXPECT_TRUE(deployment.server().process().WaitForOutput("migration 99"));
}

TEST_F(HealthTest, RoleWithoutRightsIsRefusedWithTheGrantToMake) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const std::string database = cluster.CreateMigratedDatabase();
  Sql(cluster.Url(database), "CREATE ROLE stranger LOGIN");
  const ProcessResult result = Serve(cluster.Url(database, "stranger"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error, HasSubstr("GRANT dedupe_runtime"));
}

// Two servers on one port would share its callers without a word.
TEST_F(HealthTest, AddressInUseIsSaidToBe) {
  const std::string address = Shared().server().address();
  const ProcessResult result = Serve(Shared().server_url(), address);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr(address), HasSubstr("in use"),
                    HasSubstr("--listen-address")));
}

// Deployments start many at once, and keep small ones beside their services.
TEST_F(HealthTest, StartsQuicklyAndIdlesSmall) {
  std::vector<double> seconds;
  double mebibytes = 0;
  Deployment deployment;
  for (int i = 0; i < 5; ++i) {
    const absl::Time start = absl::Now();
    deployment.server().Restart();
    const HealthClient health(deployment.server().address());
    health.WaitFor("readiness", HealthState::kServing, absl::Seconds(20));
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
    mebibytes = MemoryUse(deployment.server().process().pid(), "VmRSS");
  }
  std::sort(seconds.begin(), seconds.end());
  absl::PrintF(
      "SERVING %.2f s after the start (median of 5; slowest %.2f s),"
      " %.1f MiB resident\n",
      seconds[2], seconds[4], mebibytes);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LE(seconds[2], 1.0);
  EXPECT_GT(mebibytes, 0);
  EXPECT_LE(mebibytes, 60);
#endif
}

}  // namespace
}  // namespace dedupe::testing
