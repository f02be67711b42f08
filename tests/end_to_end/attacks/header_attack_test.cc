// Headers that gRPC does not bear, or bears without bounds: what they do to the
// connections of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/limits.h"
#include "tests/end_to_end/attacks/attacked_server.h"
#include "tests/end_to_end/attacks/frames.h"
#include "tests/support/load.h"

namespace dedupe::testing {
namespace {

struct HeaderRow {
  const char* name;
  std::pair<std::string, std::string> header;

  friend void PrintTo(const HeaderRow& self, std::ostream* out) {
    *out << self.name;
  }
};

class BadHeaderTest : public EndToEndTest,
                      public ::testing::WithParamInterface<HeaderRow> {};

// At worst gRPC takes it for a fault of the connection, not of the call.
TEST_P(BadHeaderTest, EndsItsConnectionAlone) {
  const v1::BeginRequest held = BeginOf(Key(), "attempt-1");
  const BeginReply started = client().Begin(held);
  ASSERT_THAT(started, IsStarted());
  v1::BeginRequest wait = BeginOf(Key(), "attempt-2");
  *wait.mutable_wait() = ToProto(absl::Seconds(20));
  PendingBegin waiting(client(), wait, absl::Seconds(20));
  Client other(Shared().server().address());
  PendingBegin waiting_elsewhere(other, wait, absl::Seconds(20));

  Http2Peer peer(Shared().server().address());
  peer.SendPreface();
  peer.AwaitSettings();
  peer.SendHeaders(MethodPath("Begin"), {GetParam().header});
  const Http2Peer::Outcome outcome = peer.Read();
  GTEST_LOG_(INFO) << "status " << outcome.status.value_or(-1) << ", closed "
                   << outcome.connection_was_closed << ", reset "
                   << outcome.stream_was_reset;
  EXPECT_TRUE(outcome.connection_was_closed || outcome.stream_was_reset ||
              outcome.status.value_or(grpc::OK) != grpc::OK);

  EXPECT_FALSE(waiting.done());
  EXPECT_FALSE(waiting_elsewhere.done());
  EXPECT_THAT(client().Complete(
                  CompleteOf(held, started.message.started().fence(), "done")),
              IsOk());
  EXPECT_THAT(waiting.reply(), IsReplayOf("done"));
  EXPECT_THAT(waiting_elsewhere.reply(), IsReplayOf("done"));
}

INSTANTIATE_TEST_SUITE_P(
    Headers, BadHeaderTest,
    ::testing::Values(HeaderRow{"NotBase64", {"x-bin", "@@@@"}},
                      HeaderRow{"TooLong", {"x", std::string(9000, 'x')}}),
    [](const auto& row) { return row.param.name; });

// What no setting of gRPC 1.51 bounds: a header block that does not end.
struct EndlessRow {
  const char* name;
  // Of the HEADERS frame.
  std::string beginning;
  // Of one CONTINUATION frame; how many there are.
  std::string payload;
  int frames;

  friend void PrintTo(const EndlessRow& self, std::ostream* out) {
    *out << self.name;
  }
};

class EndlessHeadersTest : public ::testing::TestWithParam<EndlessRow> {};

// A figure for whoever decides who may connect: others are served meanwhile,
// more slowly.
TEST_P(EndlessHeadersTest, LeaveOthersServed) {
  PostgresCluster::Shared();
  AttackedServer server;
  const LoadOptions load = {.address = server.address(),
                            .callers = 4,
                            .channels = 1,
                            .warm_up = absl::Milliseconds(200),
                            .duration = absl::Seconds(1)};
  const LoadResult before = RunPairs(load);
  const double resident_before = server.ResidentMebibytes();
  HighWater high_water(server);
  auto attack = std::async(std::launch::async, [&] {
    RawConnection peer(server.address());
    peer.Send(Preface() + SettingsAcknowledgement() +
              Frame(kHeadersFrame, 0, 1, GetParam().beginning));
    const std::string frame =
        Frame(kContinuationFrame, 0, 1, GetParam().payload);
    std::string frames;
    int sent = 0;
    for (; sent < GetParam().frames && !peer.closed(); sent += 10) {
      frames.clear();
      for (int i = 0; i < 10; ++i) frames += frame;
      if (!peer.Send(frames, absl::Seconds(3))) break;
      peer.Take();
    }
    // Held for as long as the others are watched.
    return std::pair(std::make_unique<RawConnection>(std::move(peer)), sent);
  });
  const LoadResult during = RunPairs(load);
  const auto [peer, sent] = attack.get();
  high_water.Stop();
  GTEST_LOG_(INFO) << sent << " frames of " << GetParam().payload.size()
                   << " bytes; MiB " << resident_before << ", at most "
                   << high_water.resident_mebibytes() << "; Begin p99 "
                   << before.begin_p99 << ", during " << during.begin_p99
                   << "; pairs/s " << before.pairs_per_second << ", during "
                   << during.pairs_per_second << "; connection "
                   << (peer->HasHungUp() ? "closed" : "open");
  EXPECT_TRUE(server.running());
  EXPECT_EQ(during.failures, 0) << during.first_failure;
  EXPECT_GT(during.pairs, 0);
  Client newcomer(server.address());
  EXPECT_THAT(newcomer.Begin(BeginOf("afterwards", "attempt-1")), IsStarted());
}

std::string ManyHeaders() {
  std::string block;
  for (int i = 0; i < 7; ++i) {
    block += LiteralHeader(absl::StrCat("x-", i), std::string(1000, 'x'));
  }
  return block;
}

INSTANTIATE_TEST_SUITE_P(
    Floods, EndlessHeadersTest,
    ::testing::Values(
        // Each frame is below the limit, and together they are 140 MiB.
        EndlessRow{"Continuations", "", ManyHeaders(), 20'000},
        // The length of a name, written with zeros in front, a byte a frame.
        EndlessRow{"PaddedNumber", std::string("\x00\x7f", 2), "\x80", 20'000}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace dedupe::testing
