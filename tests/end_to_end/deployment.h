// What the tests here run against: a migrated database of their own and a real
// server on it, reached by gRPC.
#ifndef DEDUPE_TESTS_END_TO_END_DEPLOYMENT_H_
#define DEDUPE_TESTS_END_TO_END_DEPLOYMENT_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/grpc_client.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/server_process.h"

namespace dedupe::testing {

// The role that servers log in with.
inline constexpr char kServerRole[] = "dedupe_server";

// For a server that loses connections in the middle of a statement and then
// ends: libpqxx 6.4 loses a result with each, which LeakSanitizer would report,
// and turn the exit code into an error.
inline const Environment kLosesResults = {{"ASAN_OPTIONS", "detect_leaks=0"}};

class Deployment {
 public:
  explicit Deployment(std::vector<std::string> settings = {},
                      PostgresCluster& cluster = PostgresCluster::Shared(),
                      Environment environment = {})
      : database_(cluster.CreateMigratedDatabase()),
        url_(cluster.Url(database_)),
        server_url_(cluster.Url(database_, kServerRole)),
        server_({.database_url = server_url_,
                 .settings = std::move(settings),
                 .environment = std::move(environment)}),
        client_(server_.address()) {}

  const std::string& database() const { return database_; }
  // As the superuser.
  const std::string& url() const { return url_; }
  // As the server.
  const std::string& server_url() const { return server_url_; }
  ServerProcess& server() { return server_; }
  Client& client() { return client_; }

 private:
  std::string database_;
  std::string url_;
  std::string server_url_;
  ServerProcess server_;
  Client client_;
};

// One deployment for the whole test program; a test keeps to keys of its own.
class EndToEndTest : public ::testing::Test {
 protected:
  static Deployment& Shared() {
    // Before the deployment, because it has to outlive it.
    PostgresCluster::Shared();
    static Deployment deployment;
    return deployment;
  }
  Client& client() { return Shared().client(); }

  // No other test has it.
  static std::string Key(const std::string& suffix = "") {
    const ::testing::TestInfo& test =
        *::testing::UnitTest::GetInstance()->current_test_info();
    return absl::StrCat(test.test_suite_name(), ".", test.name(), suffix);
  }
};

// Returns when the clock of the database, which is this machine's, is past it.
inline void WaitUntilPast(const google::protobuf::Timestamp& time) {
  absl::SleepFor(FromProto(time) - absl::Now() + absl::Milliseconds(2));
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_DEPLOYMENT_H_
