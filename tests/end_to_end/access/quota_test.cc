// Quotas: what a principal may use up, what it is told, and what goes on all
// the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/end_to_end/access/guarded_server.h"

namespace dedupe::testing {
namespace {

constexpr auto kExhausted = grpc::StatusCode::RESOURCE_EXHAUSTED;

// What ErrorInfo's metadata calls it.
std::string QuotaOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) ||
      details.details().empty() || !details.details(0).UnpackTo(&info) ||
      info.metadata().count("quota") == 0) {
    return "";
  }
  return info.metadata().at("quota");
}

MATCHER_P(IsOverQuota, quota, "") {
  return arg.status.error_code() == kExhausted &&
         ReasonOf(arg.status) == "QUOTA" && QuotaOf(arg.status) == quota &&
         DetailsOf(arg.status).retry_delay > absl::ZeroDuration();
}

class QuotaTest : public AccessTest {
 protected:
  // Of a caller who may use the client id of the same name.
  std::unique_ptr<Client> NewCaller(const std::string& name,
                                    const std::string& quota) {
    return ClientWith(Guarded().NewToken(
        name, {"--role=caller", "--client-ids=" + name, quota}));
  }
};

TEST_F(QuotaTest, B61CallRateIsBounded) {
  const auto client = NewCaller("rate", "--calls-per-second-max=5");
  int refused = 0;
  int heard = 0;
  const absl::Time began = absl::Now();
  while (absl::Now() - began < absl::Seconds(2)) {
    const LookupReply reply = client->Lookup(LookupOf(BeginFor("rate")));
    if (reply.status.ok()) {
      ++heard;
    } else {
      EXPECT_THAT(reply, IsOverQuota("calls_per_second"));
      ++refused;
    }
  }
  // A second's calls at once, and what comes back in two.
  EXPECT_GE(heard, 8);
  EXPECT_LE(heard, 17);
  EXPECT_GT(refused, 0);
}

TEST_F(QuotaTest, RefusalTellsRetryingClientsHowLong) {
  const auto client = NewCaller("pushback", "--calls-per-second-max=1");
  grpc::Status status;
  std::string pushback;
  for (int i = 0; i < 20 && status.ok(); ++i) {
    grpc::ClientContext context;
    client->Identify(context);
    v1::LookupResponse response;
    status = client->stub().Lookup(&context, LookupOf(BeginFor("pushback")),
                                   &response);
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto found = trailers.find("grpc-retry-pushback-ms");
    if (found != trailers.end()) {
      pushback = {found->second.data(), found->second.size()};
    }
  }
  EXPECT_EQ(status.error_code(), kExhausted);
  EXPECT_EQ(pushback, "1000");
}

TEST_F(QuotaTest, CallsInFlightAreBounded) {
  const auto client = NewCaller("in-flight", "--calls-in-flight-max=2");
  ASSERT_THAT(client->Begin(BeginFor("in-flight")), IsStarted());
  // Both wait for the first attempt.
  v1::BeginRequest waiting = BeginFor("in-flight");
  waiting.set_attempt_id("attempt-2");
  *waiting.mutable_wait() = ToProto(absl::Seconds(8));
  {
    PendingBegin first(*client, waiting);
    waiting.set_attempt_id("attempt-3");
    PendingBegin second(*client, waiting);
    EXPECT_TRUE(GuardedServer::Await([&] {
      return client->Lookup(LookupOf(BeginFor("in-flight")))
                 .status.error_code() == kExhausted;
    }));
    EXPECT_THAT(client->Lookup(LookupOf(BeginFor("in-flight"))),
                IsOverQuota("calls_in_flight"));
  }
  EXPECT_TRUE(GuardedServer::Await([&] {
    return client->Lookup(LookupOf(BeginFor("in-flight"))).status.ok();
  }));
}

// Others' quotas are not ours.
TEST_F(QuotaTest, OneCallersFloodIsNotTheOthersQuota) {
  const auto flooding = NewCaller("flooding", "--calls-per-second-max=1");
  const auto other = NewCaller("other", "--calls-per-second-max=1000");
  for (int i = 0; i < 50; ++i) {
    flooding->Lookup(LookupOf(BeginFor("flooding")));
    EXPECT_THAT(other->Lookup(LookupOf(BeginFor("other"))), IsOk());
  }
}

TEST_F(QuotaTest, LiveKeysBoundNewKeysAlone) {
  const auto client = NewCaller("keys", "--live-keys-max=3");
  std::vector<int64_t> fences;
  for (const char* key : {"1", "2", "3"}) {
    const BeginReply begun = client->Begin(BeginFor("keys", key));
    ASSERT_THAT(begun, IsStarted());
    fences.push_back(begun.message.started().fence());
  }
  EXPECT_THAT(client->Begin(BeginFor("keys", "4")), IsOverQuota("live_keys"));
  // What was begun goes on in every way,
  EXPECT_THAT(client->Begin(BeginFor("keys", "1")), IsStarted());
  EXPECT_THAT(client->Extend(ExtendOf(BeginFor("keys", "1"), fences[0])),
              IsOk());
  EXPECT_THAT(
      client->Complete(CompleteOf(BeginFor("keys", "1"), fences[0], "done")),
      IsOk());
  // and is replayed.
  EXPECT_THAT(client->Begin(BeginFor("keys", "1")), IsReplayOf("done"));
  EXPECT_THAT(client->Lookup(LookupOf(BeginFor("keys", "4"))), IsOk());
  EXPECT_THAT(client->Release(ReleaseOf(BeginFor("keys", "2"), fences[1])),
              IsOk());
  v1::BeginRequest again = BeginFor("keys", "2");
  again.set_attempt_id("attempt-2");
  EXPECT_THAT(client->Begin(again), IsStarted());
}

TEST_F(QuotaTest, ExpiryMakesRoomForNewKeys) {
  const auto client = NewCaller("expiry", "--live-keys-max=1");
  v1::BeginRequest begin = BeginFor("expiry", "1");
  *begin.mutable_ttl() = ToProto(absl::Milliseconds(100));
  const BeginReply begun = client->Begin(begin);
  ASSERT_THAT(begun, IsStarted());
  ASSERT_THAT(client->Complete(
                  CompleteOf(begin, begun.message.started().fence(), "done")),
              IsOk());
  EXPECT_THAT(client->Begin(BeginFor("expiry", "2")), IsOverQuota("live_keys"));
  EXPECT_TRUE(GuardedServer::Await(
      [&] { return client->Begin(BeginFor("expiry", "2")).status.ok(); },
      absl::Seconds(15)));
}

TEST_F(QuotaTest, StoredBytesBoundNewKeysAndNotTheCompletionOfOld) {
  const auto client = NewCaller("bytes", "--stored-bytes-max=1000");
  const BeginReply first = client->Begin(BeginFor("bytes", "1"));
  const BeginReply second = client->Begin(BeginFor("bytes", "2"));
  ASSERT_THAT(first, IsStarted());
  ASSERT_THAT(second, IsStarted());
  ASSERT_THAT(client->Complete(CompleteOf(BeginFor("bytes", "1"),
                                          first.message.started().fence(),
                                          std::string(2000, 'x'))),
              IsOk());
  EXPECT_THAT(client->Begin(BeginFor("bytes", "3")),
              IsOverQuota("stored_bytes"));
  // To refuse it would lose what was done.
  EXPECT_THAT(client->Complete(CompleteOf(BeginFor("bytes", "2"),
                                          second.message.started().fence(),
                                          std::string(2000, 'y'))),
              IsOk());
  EXPECT_THAT(client->Begin(BeginFor("bytes", "1")),
              IsReplayOf(std::string(2000, 'x')));
}

// Keys that another server has made are found by counting in the database.
TEST_F(QuotaTest, KeysOfOtherServersCount) {
  const auto client = NewCaller("elsewhere", "--live-keys-max=2");
  ServerProcess other({.database_url = Guarded().deployment().server_url(),
                       .settings = {},
                       .environment = {}});
  Client unguarded(other.address());
  ASSERT_THAT(unguarded.Begin(BeginFor("elsewhere", "1")), IsStarted());
  ASSERT_THAT(unguarded.Begin(BeginFor("elsewhere", "2")), IsStarted());
  // Until they are counted, more are let in: a new one each time.
  int tries = 0;
  EXPECT_TRUE(GuardedServer::Await(
      [&] {
        const v1::BeginRequest begin =
            BeginFor("elsewhere", absl::StrCat("more-", ++tries));
        return client->Begin(begin).status.error_code() == kExhausted;
      },
      absl::Seconds(15)));
}

}  // namespace
}  // namespace dedupe::testing
