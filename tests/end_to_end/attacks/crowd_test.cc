// More connections than there are descriptors, and very many that do nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/transport/descriptor.h"
#include "tests/end_to_end/attacks/attacked_server.h"
#include "tests/end_to_end/attacks/frames.h"
#include "tests/support/load.h"

namespace dedupe::testing {
namespace {

using Peers = std::vector<std::unique_ptr<RawConnection>>;

struct ShortageRow {
  const char* name;
  std::vector<std::string> settings;
  // Of the running server, which had counted on more; 0: as it is.
  rlim_t descriptors = 0;
  // What counts the connections that it had no room for.
  const char* metric;

  friend void PrintTo(const ShortageRow& self, std::ostream* out) {
    *out << self.name;
  }
};

class ShortageTest : public ::testing::TestWithParam<ShortageRow> {};

TEST_P(ShortageTest, EndsWithTheCrowd) {
  PostgresCluster::Shared();
  RaiseDescriptorLimit();
  AttackedServer server(GetParam().settings);
  Client old_client(server.address());
  ASSERT_THAT(old_client.Begin(BeginOf("before", "attempt-1")), IsStarted());
  if (GetParam().descriptors > 0) {
    const rlimit limit = {GetParam().descriptors, GetParam().descriptors};
    ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  }

  Peers crowd;
  for (int i = 0; i < 400; ++i) {
    crowd.push_back(std::make_unique<RawConnection>(server.address()));
    crowd.back()->Send(Preface() + SettingsAcknowledgement());
  }
  const absl::Time until = absl::Now() + absl::Seconds(3);
  int calls = 0;
  for (; absl::Now() < until; ++calls) {
    const std::string key = absl::StrCat("during-", calls);
    ASSERT_THAT(old_client.Begin(BeginOf(key, "attempt-1")), IsStarted());
    absl::SleepFor(absl::Milliseconds(20));
  }
  crowd.clear();
  const absl::Time released_at = absl::Now();
  Client new_client(server.address());
  new_client.WaitForConnection();
  EXPECT_THAT(new_client.Begin(BeginOf("after", "attempt-1"), absl::Seconds(2)),
              IsStarted());
  GTEST_LOG_(INFO) << calls << " calls of the old client meanwhile; the new "
                   << "one served after " << absl::Now() - released_at << "; "
                   << GetParam().metric << " "
                   << server.Metric(GetParam().metric);
  EXPECT_GT(server.Metric(GetParam().metric), 0);
  EXPECT_TRUE(server.running());
}

INSTANTIATE_TEST_SUITE_P(
    Shortages, ShortageTest,
    ::testing::Values(
        ShortageRow{"OfDescriptors", {}, 256, "dedupe_accept_failures_total"},
        ShortageRow{"OfItsOwnMaking",
                    {"--connections-max=96"},
                    0,
                    "dedupe_connections_refused_total"}),
    [](const auto& row) { return row.param.name; });

TEST(IdleConnectionsTest, CostLittleMemory) {
  PostgresCluster::Shared();
  ASSERT_GE(RaiseDescriptorLimit(), 2100);
  AttackedServer server;
  const double resident_before = server.ResidentMebibytes();
  Peers idle;
  const absl::Time began_at = absl::Now();
  for (int i = 0; i < 2000; ++i) {
    idle.push_back(std::make_unique<RawConnection>(server.address()));
    idle.back()->Send(Preface() + SettingsAcknowledgement());
  }
  ASSERT_TRUE(Await(absl::Seconds(10), [&] {
    return server.Metric("dedupe_connections") >= 2000;
  })) << server.Metric("dedupe_connections");
  const absl::Duration took = absl::Now() - began_at;
  const LoadResult load = RunPairs({.address = server.address(),
                                    .callers = 16,
                                    .channels = 1,
                                    .duration = absl::Seconds(1)});
  const double kibibytes =
      (server.ResidentMebibytes() - resident_before) * 1024 / 2000;
  GTEST_LOG_(INFO) << "2000 connections within " << took << ", " << kibibytes
                   << " KiB each; " << load.pairs_per_second << " pairs/s";
  EXPECT_EQ(load.failures, 0) << load.first_failure;
  EXPECT_GT(load.pairs, 100);
  EXPECT_LE(kibibytes, 100);
  for (const auto& peer : idle) EXPECT_FALSE(peer->HasHungUp());
  idle.clear();
  EXPECT_TRUE(Await(absl::Seconds(5), [&] {
    return server.Metric("dedupe_connections") <= 2;
  })) << server.Metric("dedupe_connections");
}

}  // namespace
}  // namespace dedupe::testing
