// Good requests in bad times: what the caller is told is fixed as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/bad_input/bad_input_test.h"
#include "tests/end_to_end/health_client.h"
#include "tests/end_to_end/http2_peer.h"
#include "tests/end_to_end/row_lock.h"

namespace dedupe::testing {
namespace {

constexpr auto kUnavailable = grpc::StatusCode::UNAVAILABLE;
constexpr auto kInternal = grpc::StatusCode::INTERNAL;

// What each of the methods answers about a key, in their order.
std::vector<RawReply> AskAll(Client& client, const v1::BeginRequest& begin,
                             int64_t fence) {
  const std::string requests[] = {
      begin.SerializeAsString(),
      CompleteOf(begin, fence, "done").SerializeAsString(),
      ExtendOf(begin, fence).SerializeAsString(),
      ReleaseOf(begin, fence).SerializeAsString(),
      LookupOf(begin).SerializeAsString()};
  std::vector<RawReply> replies;
  for (size_t i = 0; i < std::size(kMethods); ++i) {
    replies.push_back(
        CallRaw(client.channel(), MethodPath(kMethods[i]), requests[i]));
  }
  return replies;
}

TEST_F(BadInputTest, B53HealthOfAnUnknownServiceIsNotFound) {
  const HealthClient health(Shared().server().address());
  EXPECT_EQ(health.Check("nothing"), HealthState::kUnknownService);
}

// A stream that stays open: the service may yet come. SERVICE_UNKNOWN is 3.
TEST_F(BadInputTest, B53WatchOfAnUnknownServiceSaysUnknownAndStaysOpen) {
  const std::string unknown = GrpcFrame("\x08\x03");
  Http2Peer peer(Shared().server().address());
  peer.SendPreface();
  peer.SendHeaders("/grpc.health.v1.Health/Watch");
  peer.SendData(GrpcFrame("\x0a\x07nothing"));
  const Http2Peer::Outcome outcome = peer.ReadData(unknown.size());
  EXPECT_EQ(outcome.data, unknown);
  EXPECT_FALSE(outcome.status.has_value());
  EXPECT_FALSE(outcome.stream_was_reset);
  EXPECT_FALSE(outcome.connection_was_closed);
}

TEST_F(BadInputTest, B62DrainingServerIsUnavailableToEveryMethod) {
  Deployment deployment({"--drain-grace=20s"});
  const v1::BeginRequest busy = BeginOf("busy", "attempt-1");
  const int64_t fence =
      deployment.client().Begin(busy).message.started().fence();
  ASSERT_THAT(deployment.client().Release(ReleaseOf(busy, fence)), IsOk());
  // A call in flight keeps the server from ending.
  auto lock = std::make_unique<RowLock>(deployment.url(), "busy");
  PendingBegin in_flight(deployment.client(), BeginOf("busy", "attempt-2"));
  ASSERT_FALSE(in_flight.WaitFor(absl::Milliseconds(100)));
  deployment.server().process().Signal(SIGTERM);
  const absl::Time until = absl::Now() + absl::Seconds(10);
  while (deployment.client().Lookup(LookupOf(busy)).status.ok()) {
    ASSERT_LT(absl::Now(), until) << "goes on serving";
  }

  for (const RawReply& reply :
       AskAll(deployment.client(), BeginOf("key", "attempt-1"), 1)) {
    EXPECT_THAT(reply, IsRefused(kUnavailable, "DRAINING"));
    EXPECT_GT(DetailsOf(reply.status).retry_delay, absl::ZeroDuration());
  }
  lock.reset();
  EXPECT_THAT(in_flight.reply(), IsStarted());
  EXPECT_EQ(deployment.server().process().Wait(), 0);
}

TEST_F(BadInputTest, B62StoreThatIsDownIsUnavailableToEveryMethod) {
  PostgresCluster cluster({});
  Deployment deployment({}, cluster, kLosesResults);
  cluster.Stop("immediate");
  for (const RawReply& reply :
       AskAll(deployment.client(), BeginOf("key", "attempt-1"), 1)) {
    EXPECT_THAT(reply, IsRefused(kUnavailable, "STORE_DOWN"));
    EXPECT_GT(DetailsOf(reply.status).retry_delay, absl::ZeroDuration());
  }
  EXPECT_TRUE(deployment.server().process().running());
}

// Tells whether a deployment's records are as they were.
std::string Digest(Deployment& deployment) {
  return SqlValue(deployment.url(),
                  "SELECT md5(string_agg(r::text || r.ctid::text, ','"
                  " ORDER BY key)) FROM dedupe.record AS r");
}

// A record that breaks its own rules is an operator's business: told to nobody
// in detail, and never taken for a free key.
TEST_F(BadInputTest, B63DamagedRecordIsRefusedAndUnchanged) {
  Deployment deployment;
  Sql(deployment.url(),
      "ALTER TABLE dedupe.record DROP CONSTRAINT record_fingerprint_bound");
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const int64_t fence =
      deployment.client().Begin(begin).message.started().fence();
  ASSERT_THAT(deployment.client().Complete(CompleteOf(begin, fence, "done")),
              IsOk());
  Sql(deployment.url(), "UPDATE dedupe.record SET fingerprint = NULL");
  const std::string before = Digest(deployment);

  EXPECT_THAT(deployment.client().Begin(begin),
              IsRefused(kInternal, "RECORD_DAMAGED"));
  EXPECT_THAT(deployment.client().Begin(BeginOf(Key(), "attempt-2")),
              IsRefused(kInternal, "RECORD_DAMAGED"));
  EXPECT_THAT(deployment.client().Lookup(LookupOf(begin)),
              IsRefused(kInternal, "RECORD_DAMAGED"));
  EXPECT_EQ(Digest(deployment), before);
  EXPECT_TRUE(deployment.server().process().WaitForOutput(
      "\"reason\":\"RECORD_DAMAGED\""));
  EXPECT_THAT(deployment.client().Begin(BeginOf("next", "attempt-1")),
              IsStarted());
}

// As a later version might write it, were it let loose on the same schema.
TEST_F(BadInputTest, B63StateOfALaterVersionIsRefusedAndUnchanged) {
  Deployment deployment;
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const int64_t fence =
      deployment.client().Begin(begin).message.started().fence();
  Sql(deployment.url(),
      "DO $$ DECLARE name text; BEGIN FOR name IN SELECT conname FROM"
      " pg_constraint WHERE conrelid = 'dedupe.record'::regclass AND"
      " contype = 'c' LOOP EXECUTE format('ALTER TABLE dedupe.record DROP"
      " CONSTRAINT %I', name); END LOOP; END $$");
  Sql(deployment.url(), "ALTER TYPE dedupe.record_state ADD VALUE 'suspended'");
  Sql(deployment.url(), "UPDATE dedupe.record SET state = 'suspended'");
  const std::string before = Digest(deployment);

  for (const RawReply& reply : AskAll(deployment.client(), begin, fence)) {
    EXPECT_THAT(reply, IsRefused(kInternal, "RECORD_DAMAGED"));
  }
  EXPECT_EQ(Digest(deployment), before);
  EXPECT_TRUE(deployment.server().process().WaitForOutput(
      "\"reason\":\"RECORD_DAMAGED\""));
  EXPECT_THAT(deployment.client().Begin(BeginOf("next", "attempt-1")),
              IsStarted());
}

// The one exception that a caller can cause to be thrown within the server:
// libpqxx throws what the database says, which quotes what was sent.
TEST_F(BadInputTest, B64ExceptionInsideACallEndsThere) {
  Deployment deployment;
  Sql(deployment.url(),
      "CREATE FUNCTION public.shout() RETURNS trigger LANGUAGE plpgsql AS"
      " $$ BEGIN RAISE EXCEPTION 'key % is bad', NEW.key"
      " USING DETAIL = repeat(NEW.key, 1000); END $$;"
      "CREATE TRIGGER shout BEFORE INSERT ON dedupe.record FOR EACH ROW"
      " WHEN (NEW.key = 'quoted-key') EXECUTE FUNCTION public.shout()");
  const pid_t pid = deployment.server().process().pid();
  for (int i = 0; i < 20; ++i) {
    const BeginReply reply =
        deployment.client().Begin(BeginOf("quoted-key", "attempt-1"));
    EXPECT_THAT(reply, IsRefused(kInternal, "STORE_BROKEN"));
    ExpectHarmless(reply.status, "quoted-key");
    ExpectHarmless(reply.status, "SQL");
    ExpectHarmless(reply.status, "bad");
  }
  EXPECT_THAT(deployment.client().Begin(BeginOf("next", "attempt-1")),
              IsStarted());
  EXPECT_TRUE(deployment.server().process().running());
  EXPECT_EQ(deployment.server().process().pid(), pid);
}

}  // namespace
}  // namespace dedupe::testing
