// Calls that are reset as soon as they are sent, the attack known as rapid
// reset, and calls of a peer that never accepts the server's settings, to whom
// gRPC's own limit of streams does not apply.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/limits.h"
#include "tests/end_to_end/attacks/attacked_server.h"
#include "tests/end_to_end/attacks/frames.h"
#include "tests/end_to_end/row_lock.h"
#include "tests/support/load.h"

namespace dedupe::testing {
namespace {

// The good callers come from 127.0.0.1.
constexpr char kAttackersHost[] = "127.0.0.2";
constexpr char kAttackersClient[] = "mallory";

std::string BeginFrames(CallHeaders& headers, uint32_t stream,
                        const v1::BeginRequest& begin) {
  return headers.Next(stream) + DataFrame(stream,
                                          GrpcFrame(begin.SerializeAsString()),
                                          EndStream::kYes);
}

enum class WhenCut { kStop, kConnectAnew };
enum class Calls { kWhole, kHeadersAlone };

struct FloodRow {
  const char* name;
  WhenCut when_cut;
  std::string method;
  Calls calls;
  absl::Duration duration;

  friend void PrintTo(const FloodRow& self, std::ostream* out) {
    *out << self.name;
  }
};

struct FloodResult {
  int64_t resets = 0;
  int64_t connections = 0;
};

// Begins, each with a key of its own, each reset in the same breath.
class ResetFlood {
 public:
  ResetFlood(std::string address, const FloodRow& row)
      : address_(std::move(address)), row_(row) {}

  FloodResult Run() {
    const absl::Time began_at = absl::Now();
    Connect();
    while (absl::Now() < began_at + row_.duration) {
      if (connection_->closed()) {
        if (row_.when_cut == WhenCut::kStop) break;
        absl::SleepFor(absl::Milliseconds(1));
        Connect();
      }
      std::string bytes;
      for (int i = 0; i < kPairsPerSend; ++i) bytes += NextPair();
      if (connection_->Send(bytes)) result_.resets += kPairsPerSend;
      connection_->Take();
      absl::SleepFor(began_at + result_.resets * kInterval - absl::Now());
    }
    connection_->Close();
    return result_;
  }

 private:
  static constexpr int kPairsPerSend = 100;
  // 50,000 each second.
  static constexpr absl::Duration kInterval = absl::Microseconds(20);

  void Connect() {
    ++result_.connections;
    connection_.emplace(address_,
                        RawConnection::Options{.from = kAttackersHost});
    connection_->Send(Preface() + SettingsAcknowledgement());
    headers_.emplace(row_.method);
    stream_ = 1;
  }

  std::string NextPair() {
    v1::BeginRequest begin = BeginOf(absl::StrCat("reset-", ++keys_), "one");
    begin.set_client_id(kAttackersClient);
    const std::string bytes =
        (row_.calls == Calls::kWhole ? BeginFrames(*headers_, stream_, begin)
                                     : headers_->Next(stream_)) +
        ResetFrame(stream_);
    stream_ += 2;
    return bytes;
  }

  const std::string address_;
  const FloodRow row_;
  FloodResult result_;
  std::optional<RawConnection> connection_;
  std::optional<CallHeaders> headers_;
  uint32_t stream_ = 1;
  int64_t keys_ = 0;
};

class RapidResetTest : public ::testing::TestWithParam<FloodRow> {};

// Both halves of the sandwich are measured in the same seconds, on the same
// two processors that the attacker uses too.
TEST_P(RapidResetTest, GoodCallersHardlyNotice) {
  PostgresCluster::Shared();
  AttackedServer server;
  LoadOptions load = {.address = server.address(),
                      .callers = 16,
                      .channels = 1,
                      .warm_up = absl::Milliseconds(300),
                      .duration = absl::Seconds(1)};
  const LoadResult before = RunPairs(load);
  const double resident_before = server.ResidentMebibytes();

  HighWater high_water(server);
  // What is measured is the whole of it, its beginning included.
  load.duration = GetParam().duration;
  load.warm_up = absl::ZeroDuration();
  ResetFlood flood(server.address(), GetParam());
  auto attack = std::async(std::launch::async, [&] { return flood.Run(); });
  const LoadResult during = RunPairs(load);
  const FloodResult flooded = attack.get();
  high_water.Stop();

  EXPECT_TRUE(Await(absl::Seconds(2), [&] {
    return server.Metric("dedupe_calls_in_flight") == 0;
  }));
  load.duration = absl::Seconds(1);
  const LoadResult after = RunPairs(load);
  const int64_t rows = server.CountRows(kAttackersClient);
  const double baseline =
      (before.pairs_per_second + after.pairs_per_second) / 2;
  GTEST_LOG_(INFO) << flooded.resets << " resets on " << flooded.connections
                   << " connections, " << rows << " records; pairs/s "
                   << before.pairs_per_second << ", during "
                   << during.pairs_per_second << ", after "
                   << after.pairs_per_second << " (ratio "
                   << during.pairs_per_second / baseline << "); Begin p99 "
                   << before.begin_p99 << ", during " << during.begin_p99
                   << "; in flight at most " << high_water.calls_in_flight()
                   << "; MiB " << resident_before << ", at most "
                   << high_water.resident_mebibytes() << "; cut "
                   << server.Metric("dedupe_connections_cut_total");
  EXPECT_TRUE(server.running());
  EXPECT_GE(server.Metric("dedupe_connections_cut_total"), 1);
  EXPECT_GE(flooded.resets, kConnectionWastedCallsMax);
  // Of the attacker's at most two connections at a time, and of the others.
  EXPECT_LE(high_water.calls_in_flight(),
            2 * kConnectionStreamsMax + load.callers);
  EXPECT_LE(rows, std::max<int64_t>(flooded.resets / 100, 100));
  EXPECT_EQ(during.failures, 0) << during.first_failure;
  EXPECT_EQ(after.failures, 0) << after.first_failure;
  // 0.8 is the aim and what a quiet machine has; undefended it was 0.03.
  EXPECT_GE(during.pairs_per_second, 0.4 * baseline);
  EXPECT_LE(high_water.resident_mebibytes(), resident_before + 300);
}

INSTANTIATE_TEST_SUITE_P(
    Attackers, RapidResetTest,
    ::testing::Values(
        // Cut for good within a moment.
        FloodRow{"OneConnection", WhenCut::kStop, MethodPath("Begin"),
                 Calls::kWhole, absl::Milliseconds(1500)},
        FloodRow{"OfHeadersAlone", WhenCut::kStop, MethodPath("Begin"),
                 Calls::kHeadersAlone, absl::Milliseconds(1500)},
        FloodRow{"OfUnknownMethod", WhenCut::kStop, "/none/None", Calls::kWhole,
                 absl::Milliseconds(1500)},
        FloodRow{"OfHealth", WhenCut::kStop, "/grpc.health.v1.Health/Check",
                 Calls::kWhole, absl::Milliseconds(1500)},
        // Comes back whenever it is let in.
        FloodRow{"AgainAndAgain", WhenCut::kConnectAnew, MethodPath("Begin"),
                 Calls::kWhole, kKeepOut + absl::Milliseconds(1500)}),
    [](const auto& row) { return row.param.name; });

// Begins of one key on one connection that never says that it accepts the
// server's settings, and reads nothing.
class BeginFlood {
 public:
  BeginFlood(const std::string& address, v1::BeginRequest begin)
      : begin_(std::move(begin)),
        connection_(address, RawConnection::Options{.from = kAttackersHost}) {
    connection_.Send(Preface());
  }

  void Send(int calls) {
    for (int i = 0; i < calls; ++i, stream_ += 2) {
      connection_.Send(BeginFrames(headers_, stream_, begin_));
    }
  }
  const RawConnection& connection() const { return connection_; }

 private:
  const v1::BeginRequest begin_;
  RawConnection connection_;
  CallHeaders headers_{MethodPath("Begin")};
  uint32_t stream_ = 1;
};

TEST(SettingsNeverAcceptedTest, CallsOfAConnectionAreBoundedAllTheSame) {
  PostgresCluster::Shared();
  AttackedServer server;
  Client& client = server.deployment().client();
  v1::BeginRequest begin = BeginOf("locked", "attempt-1");
  ASSERT_THAT(client.Begin(begin), IsStarted());
  // So that calls stay.
  const RowLock lock(server.deployment().url(), "locked");

  BeginFlood flood(server.address(), begin);
  flood.Send(kConnectionStreamsMax + kConnectionWastedCallsMax / 2);
  const auto in_flight = [&] {
    return server.Metric("dedupe_calls_in_flight");
  };
  EXPECT_TRUE(Await(absl::Seconds(5), [&] {
    return in_flight() == kConnectionStreamsMax;
  })) << in_flight();
  EXPECT_THAT(client.Begin(BeginOf("good-1", "attempt-1")), IsStarted());
  EXPECT_FALSE(flood.connection().HasHungUp());

  // Those refused on top are too many within one second.
  flood.Send(2 * kConnectionWastedCallsMax);
  EXPECT_TRUE(
      Await(absl::Seconds(5), [&] { return flood.connection().HasHungUp(); }));
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return in_flight() == 0; }))
      << in_flight();
  EXPECT_THAT(client.Begin(BeginOf("good-2", "attempt-1")), IsStarted());
  EXPECT_TRUE(server.running());
}

// As many may wait as leaves room for the Complete that ends the waits.
TEST(SettingsNeverAcceptedTest, WaitsOfAConnectionAreBoundedAllTheSame) {
  PostgresCluster::Shared();
  AttackedServer server;
  Client& client = server.deployment().client();
  v1::BeginRequest begin = BeginOf("held", "attempt-1");
  ASSERT_THAT(client.Begin(begin), IsStarted());
  begin.set_attempt_id("attempt-2");
  *begin.mutable_wait() = ToProto(absl::Seconds(30));

  HighWater high_water(server);
  BeginFlood flood(server.address(), begin);
  flood.Send(kConnectionStreamsMax);
  EXPECT_TRUE(Await(absl::Seconds(5), [&] {
    return server.Metric("dedupe_calls_in_flight") == kConnectionWaitsMax;
  })) << server.Metric("dedupe_calls_in_flight");
  EXPECT_THAT(client.Begin(BeginOf("good", "attempt-1")), IsStarted());
  high_water.Stop();
  EXPECT_LE(high_water.calls_in_flight(), kConnectionStreamsMax + 1);
}

}  // namespace
}  // namespace dedupe::testing
