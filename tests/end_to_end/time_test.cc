// Whose clock: leases and expiry are reckoned by the database alone, whatever
// the server's clock says and whatever zone a session is in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/deployment.h"
#include "tests/support/test_clock.h"

namespace dedupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

// What makes a program's clock run this far off: the variables that the
// faketime program sets. Empty where there is none.
Environment ClockOffBy(const std::string& offset) {
  const ProcessResult result =
      RunProcess({"faketime", "-m", "-f", offset, "env"});
  Environment environment;
  for (const absl::string_view line :
       absl::StrSplit(result.standard_output, '\n')) {
    const std::pair<std::string, std::string> variable =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (variable.first == "LD_PRELOAD" || variable.first == "FAKETIME") {
      environment.push_back(variable);
    }
  }
  // Only the time of day is wrong; a second still lasts a second.
  environment.emplace_back("FAKETIME_DONT_FAKE_MONOTONIC", "1");
  // A sanitizer insists on coming first, unless told otherwise.
  environment.emplace_back("ASAN_OPTIONS", "verify_asan_link_order=0");
  return environment;
}

absl::Time FirstLogTime(const Process& server) {
  const std::string line = server.Output().substr(0, 60);
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime("{\"time\":\"%Y-%m-%dT%H:%M:%E*SZ",
                              line.substr(0, line.find("\",\"severity")), &time,
                              &error))
      << error << ": " << line;
  return time;
}

class WrongClockTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WrongClockTest, TheDatabasesClockDecides) {
  if (!HasProgram("faketime")) {
    GTEST_SKIP() << "faketime is not installed; apt-get install faketime";
  }
  Deployment deployment({}, PostgresCluster::Shared(), ClockOffBy(GetParam()));
  const absl::Duration offset =
      FirstLogTime(deployment.server().process()) - absl::Now();
  ASSERT_THAT(absl::AbsDuration(offset),
              AllOf(Ge(absl::Minutes(59)), Le(absl::Minutes(61))))
      << "the server's clock is not off";
  Client& client = deployment.client();
  v1::BeginRequest first = BeginOf("key", "attempt-1");
  *first.mutable_lease() = ToProto(absl::Seconds(2));
  *first.mutable_ttl() = ToProto(absl::Seconds(10));
  const BeginReply lease = client.Begin(first);
  ASSERT_THAT(lease, IsStarted());

  double left = 0;
  ASSERT_TRUE(absl::SimpleAtod(
      SqlValue(deployment.url(),
               "SELECT extract(epoch FROM lease_expires_at - now())"
               " FROM dedupe.record"),
      &left));
  EXPECT_THAT(left, AllOf(Ge(1.0), Le(2.0)));
  EXPECT_THAT(client.Begin(BeginOf("key", "attempt-2")), IsInProgress());
  WaitUntilPast(lease.message.started().lease_expires_at());
  v1::BeginRequest second = BeginOf("key", "attempt-2");
  *second.mutable_ttl() = ToProto(absl::Seconds(1));
  const BeginReply taken = client.Begin(second);
  ASSERT_THAT(taken, IsStarted());
  EXPECT_TRUE(taken.message.started().taken_over());

  const CompleteReply completed = client.Complete(
      CompleteOf(second, taken.message.started().fence(), "done"));
  ASSERT_THAT(completed, IsOk());
  EXPECT_EQ(FromProto(completed.message.expires_at()) -
                FromProto(completed.message.completed_at()),
            absl::Seconds(1));
  EXPECT_LE(absl::AbsDuration(FromProto(completed.message.decided_at()) -
                              absl::Now()),
            absl::Seconds(30));
  EXPECT_THAT(client.Begin(BeginOf("key", "attempt-3")), IsReplayOf("done"));
  WaitUntilPast(completed.message.expires_at());
  EXPECT_EQ(client.StateOf(second), v1::RECORD_STATE_ABSENT);
}

INSTANTIATE_TEST_SUITE_P(All, WrongClockTest, ::testing::Values("-1h", "+1h"),
                         [](const auto& test) {
                           return test.param[0] == '-' ? "Behind" : "Ahead";
                         });

// In New York these days have 23 and 25 hours.
class DaylightSavingTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DaylightSavingTest, TwentyFourHoursAre86400Seconds) {
  Deployment deployment;
  Sql(deployment.url(), absl::StrCat("ALTER DATABASE ", deployment.database(),
                                     " SET timezone = 'America/New_York'"));
  deployment.server().Restart();
  absl::Time noon;
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, GetParam(), &noon, nullptr));
  TestClock clock(deployment.url(), noon);
  Client client(deployment.server().address());
  const v1::BeginRequest begin = BeginOf("key", "attempt-1");
  const BeginReply lease = client.Begin(begin);
  ASSERT_THAT(lease, IsStarted());
  EXPECT_EQ(FromProto(lease.message.decided_at()), noon);
  // In progress: the lease, and then the ttl.
  EXPECT_EQ(SqlValue(deployment.url(),
                     "SELECT extract(epoch FROM expires_at - created_at)"
                     "::bigint FROM dedupe.record"),
            absl::StrCat(86'400 + 30));
  const CompleteReply completed = client.Complete(
      CompleteOf(begin, lease.message.started().fence(), "done"));
  ASSERT_THAT(completed, IsOk());
  EXPECT_EQ(FromProto(completed.message.expires_at()) - noon,
            absl::Seconds(86'400));
  EXPECT_EQ(SqlValue(deployment.url(),
                     "SELECT extract(epoch FROM expires_at - completed_at)"
                     "::bigint FROM dedupe.record"),
            "86400");
  clock.Advance(absl::Seconds(86'400) - absl::Microseconds(1));
  EXPECT_THAT(client.Begin(begin), IsReplayOf("done"));
  clock.Advance(absl::Microseconds(1));
  EXPECT_EQ(client.StateOf(begin), v1::RECORD_STATE_ABSENT);
}

INSTANTIATE_TEST_SUITE_P(All, DaylightSavingTest,
                         ::testing::Values("2026-03-07T12:00:00-05:00",
                                           "2026-10-31T12:00:00-04:00"),
                         [](const auto& test) {
                           return std::string(test.param).substr(5, 2) == "03"
                                      ? "Spring"
                                      : "Autumn";
                         });

class TtlTest : public EndToEndTest {};

TEST_F(TtlTest, UnsetIsADayAndTheMostIsFinite) {
  for (const int64_t seconds :
       {int64_t{0}, int64_t{86'400}, int64_t{31 * 86'400}}) {
    v1::BeginRequest begin = BeginOf(Key(absl::StrCat("/", seconds)), "a");
    if (seconds > 0) *begin.mutable_ttl() = ToProto(absl::Seconds(seconds));
    const CompleteReply completed = client().Complete(CompleteOf(
        begin, client().Begin(begin).message.started().fence(), "done"));
    ASSERT_THAT(completed, IsOk());
    EXPECT_EQ(FromProto(completed.message.expires_at()) -
                  FromProto(completed.message.completed_at()),
              absl::Seconds(seconds == 0 ? 86'400 : seconds));
  }
  EXPECT_EQ(SqlValue(Shared().url(),
                     "SELECT count(*) FROM dedupe.record WHERE NOT"
                     " (isfinite(expires_at) AND isfinite(reap_after))"),
            "0");
}

// What a key means after its window: nothing, not even a mismatch.
TEST_F(TtlTest, ExpiredKeyIsNewToAnotherRequest) {
  v1::BeginRequest first = BeginOf(Key(), "attempt-1");
  *first.mutable_ttl() = ToProto(absl::Seconds(1));
  const BeginReply lease = client().Begin(first);
  const CompleteReply completed = client().Complete(
      CompleteOf(first, lease.message.started().fence(), "done"));
  ASSERT_THAT(completed, IsOk());
  v1::BeginRequest other = BeginOf(Key(), "attempt-2");
  other.set_fingerprint("another request");
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-3")), IsReplayOf("done"));
  EXPECT_THAT(client().Begin(other), IsMismatch());

  WaitUntilPast(completed.message.expires_at());
  EXPECT_EQ(client().StateOf(first), v1::RECORD_STATE_ABSENT);
  EXPECT_THAT(client().Complete(
                  CompleteOf(first, lease.message.started().fence(), "done")),
              IsRefused(grpc::StatusCode::NOT_FOUND, "KEY_UNKNOWN"));
  const BeginReply anew = client().Begin(other);
  ASSERT_THAT(anew, IsStarted());
  EXPECT_GT(anew.message.started().fence(), lease.message.started().fence());
  EXPECT_EQ(anew.message.started().attempt_number(), 1);
  EXPECT_FALSE(anew.message.started().taken_over());
  EXPECT_THAT(client().Complete(
                  CompleteOf(other, anew.message.started().fence(), "other")),
              IsOk());
}

}  // namespace
}  // namespace dedupe::testing
