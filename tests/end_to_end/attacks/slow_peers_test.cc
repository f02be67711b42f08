// Peers that hold on to what they have by being slow: in the handshake, in a
// message, in taking what they asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/limits.h"
#include "server/transport/descriptor.h"
#include "tests/end_to_end/attacks/attacked_server.h"
#include "tests/end_to_end/attacks/frames.h"
#include "tests/support/load.h"
#include "tests/unit/tls/certificate_folder.h"

namespace dedupe::testing {
namespace {

using Peers = std::vector<std::unique_ptr<RawConnection>>;

Peers Connect(const std::string& address, int count,
              const std::string& first_bytes) {
  Peers peers;
  for (int i = 0; i < count; ++i) {
    peers.push_back(std::make_unique<RawConnection>(address));
    peers.back()->Send(first_bytes);
  }
  return peers;
}

int CountOpen(Peers& peers) {
  return static_cast<int>(
      std::count_if(peers.begin(), peers.end(), [](const auto& peer) {
        peer->Take();
        return !peer->closed();
      }));
}

// As far as a ClientHello of TLS 1.2 says how long it will be.
const std::string kHalfAHello("\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03",
                              11);

TEST(SlowHandshakeTest, IsEnded) {
  PostgresCluster::Shared();
  RaiseDescriptorLimit();
  CertificateAuthority authority("servers");
  CertificateFolder folder;
  folder.WritePair(authority.Issue());
  AttackedServer server({"--tls-certificate-file=" + folder.files().certificate,
                         "--tls-key-file=" + folder.files().key,
                         "--authentication=none"});
  Identity identity;
  identity.credentials =
      grpc::SslCredentials({authority.certificate_pem(), "", ""});
  const std::string address = absl::StrCat(
      "localhost:", server.address().substr(server.address().rfind(':') + 1));
  Client old_client(address, identity);
  ASSERT_THAT(old_client.Begin(BeginOf("old", "attempt-1")), IsStarted());

  const absl::Time began_at = absl::Now();
  Peers stalled = Connect(server.address(), 250, kHalfAHello);
  Peers silent = Connect(server.address(), 250, "");
  EXPECT_EQ(CountOpen(stalled) + CountOpen(silent), 500);
  absl::Duration slowest;
  int calls = 0;
  while (CountOpen(stalled) + CountOpen(silent) > 0 &&
         absl::Now() < began_at + absl::Seconds(10)) {
    const absl::Time sent_at = absl::Now();
    Client new_client(address, identity);
    const std::string key = absl::StrCat("new-", ++calls);
    EXPECT_THAT(new_client.Begin(BeginOf(key, "attempt-1")), IsStarted());
    slowest = std::max(slowest, absl::Now() - sent_at);
    EXPECT_THAT(old_client.Begin(BeginOf("old/" + key, "attempt-1")),
                IsStarted());
  }
  const absl::Duration took = absl::Now() - began_at;
  GTEST_LOG_(INFO) << "500 stalled handshakes were over after " << took << "; "
                   << calls << " new connections served meanwhile, each within "
                   << slowest;
  EXPECT_LE(took, kHandshakeTimeMax + absl::Milliseconds(1500));
  EXPECT_GE(calls, 10);
}

// A Begin whose message never ends: five bytes say that 1000 follow.
std::string BeginningOfACall(const char* timeout) {
  std::vector<std::pair<std::string, std::string>> headers;
  if (timeout != nullptr) headers.emplace_back("grpc-timeout", timeout);
  return absl::StrCat(
      Preface(), SettingsAcknowledgement(),
      CallHeaders(MethodPath("Begin"), headers).Next(1),
      DataFrame(1, GrpcFrameOfLength("", 1000), EndStream::kNo));
}

// RST_STREAM or trailers: any HEADERS or RST_STREAM frame of stream 1.
bool HasEnded(absl::string_view received) {
  while (received.size() >= 9) {
    const size_t length = static_cast<size_t>(uint8_t(received[0])) << 16 |
                          static_cast<size_t>(uint8_t(received[1])) << 8 |
                          static_cast<size_t>(uint8_t(received[2]));
    const bool is_call = received[8] == 1;
    if (is_call && (received[3] == 1 || received[3] == 3)) return true;
    received.remove_prefix(std::min(received.size(), 9 + length));
  }
  return false;
}

// Replays of bodies of 256 KiB, taken in by a peer that reads nothing.
class Hoard {
 public:
  static constexpr int kKeys = 32;

  explicit Hoard(AttackedServer& server) : server_(server) {
    Client& client = server.deployment().client();
    for (int i = 0; i < kKeys; ++i) {
      const v1::BeginRequest begin = BeginOf(Key(i), "attempt-1");
      const BeginReply started = client.Begin(begin);
      EXPECT_THAT(
          client.Complete(CompleteOf(begin, started.message.started().fence(),
                                     std::string(kBodyBytesMax, 'b'))),
          IsOk());
    }
  }

  // Asks for so many on a connection that takes all at once, were it read.
  std::unique_ptr<RawConnection> Ask(int replays) const {
    auto peer = std::make_unique<RawConnection>(
        server_.address(), RawConnection::Options{.receive_buffer = 4096});
    std::string bytes = Preface({.call = 0x7fffffff, .connection = 0x7fffffff});
    bytes += SettingsAcknowledgement();
    CallHeaders headers(MethodPath("Begin"));
    for (int i = 0; i < replays; ++i) {
      const auto stream = static_cast<uint32_t>(2 * i + 1);
      bytes += headers.Next(stream);
      bytes += DataFrame(
          stream,
          GrpcFrame(BeginOf(Key(i % kKeys), "attempt-2").SerializeAsString()),
          EndStream::kYes);
    }
    peer->Send(bytes);
    return peer;
  }

 private:
  static std::string Key(int i) { return absl::StrCat("hoarded-", i); }

  AttackedServer& server_;
};

int CountCut(const Peers& peers) {
  return static_cast<int>(
      std::count_if(peers.begin(), peers.end(),
                    [](const auto& peer) { return peer->HasHungUp(); }));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Begin's p99 of good callers, in milliseconds, the median of rounds of one
// second each.
struct GoodCallers {
  std::string address;
  int64_t failures = 0;
  std::string first_failure = {};

  double P99(int rounds) {
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
      const LoadResult result = RunPairs({.address = address,
                                          .callers = 4,
                                          .channels = 1,
                                          .warm_up = absl::Milliseconds(200),
                                          .duration = absl::Seconds(1)});
      times.push_back(absl::ToDoubleMilliseconds(result.begin_p99));
      failures += result.failures;
      if (first_failure.empty()) first_failure = result.first_failure;
    }
    return Median(times);
  }
};

TEST(SlowPeersTest, OfAllKindsAtOnceHardlyHurtGoodCallers) {
  PostgresCluster::Shared();
  RaiseDescriptorLimit();
  AttackedServer server;
  const Hoard hoard(server);
  HighWater high_water(server);
  GoodCallers good = {server.address()};
  const double p99_before = good.P99(3);
  const double resident_before = server.ResidentMebibytes();

  const absl::Time began_at = absl::Now();
  Peers silent = Connect(server.address(), 500, "");
  Peers limited = Connect(server.address(), 250, BeginningOfACall("5S"));
  Peers endless = Connect(server.address(), 250, BeginningOfACall(nullptr));
  Peers hoarders;
  // 800 MiB in all, three times what there is room for.
  for (int i = 0; i < 100; ++i) hoarders.push_back(hoard.Ask(32));
  const absl::Duration sent_within = absl::Now() - began_at;

  std::atomic<bool> stopping{false};
  std::vector<std::string> received(limited.size());
  absl::Duration silent_closed = absl::InfiniteDuration();
  absl::Duration limited_ended = absl::InfiniteDuration();
  int hoarders_cut_early = 0;
  auto attack = std::async(std::launch::async, [&] {
    const std::string byte = DataFrame(1, "x", EndStream::kNo);
    for (size_t turn = 0; !stopping; ++turn) {
      // A byte each within a second, evenly.
      int ended = 0;
      for (size_t i = turn % 50; i < endless.size(); i += 50) {
        endless[i]->SendSome(byte);
      }
      for (size_t i = 0; i < limited.size(); ++i) {
        received[i] += limited[i]->Take();
        if (HasEnded(received[i])) {
          ++ended;
        } else if (turn % 50 == i % 50) {
          limited[i]->SendSome(byte);
        }
      }
      const absl::Duration age = absl::Now() - began_at;
      if (ended == 250) limited_ended = std::min(limited_ended, age);
      if (CountOpen(silent) == 0) silent_closed = std::min(silent_closed, age);
      if (age < kUnreadTimeMax / 2) hoarders_cut_early = CountCut(hoarders);
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  const double p99_during = good.P99(19);
  const bool endless_all_open = CountOpen(endless) == 250;
  stopping = true;
  attack.get();
  high_water.Stop();
  const bool all_left = Await(absl::Seconds(5), [&] {
    return server.Metric("dedupe_calls_in_flight") == 0;
  });
  const absl::Duration all_left_after = absl::Now() - began_at;
  const double resident_after = server.ResidentMebibytes();
  GTEST_LOG_(INFO) << "sent within " << sent_within << "; silent closed after "
                   << silent_closed << ", calls ended after " << limited_ended
                   << ", " << hoarders_cut_early << " hoarders cut early, "
                   << CountCut(hoarders) << " in all, no call left after "
                   << all_left_after << "; p99 " << p99_before << " ms, during "
                   << p99_during << " ms (ratio " << p99_during / p99_before
                   << "); MiB " << resident_before << ", at most "
                   << high_water.resident_mebibytes() << ", after "
                   << resident_after << "; refused "
                   << server.Metric("dedupe_calls_overload_total") << ", cut "
                   << server.Metric("dedupe_connections_cut_total");
  EXPECT_TRUE(server.running());
  EXPECT_EQ(good.failures, 0) << good.first_failure;
  EXPECT_LE(silent_closed, kHandshakeTimeMax + absl::Seconds(3));
  EXPECT_LE(limited_ended, absl::Seconds(8));
  EXPECT_TRUE(endless_all_open);
  EXPECT_LE(all_left_after, kUnreadTimeMax + absl::Seconds(6));
  EXPECT_GE(hoarders_cut_early, 20);
  EXPECT_TRUE(all_left);
  constexpr double kMebibyte = 1024 * 1024;
  EXPECT_LE(high_water.resident_mebibytes(),
            resident_before + kUnreadBytesMax / kMebibyte + 200);
  EXPECT_LE(p99_during, 3 * p99_before + 10);
}

// Nothing else ends a call that brings no deadline and no message.
TEST(SlowMessageTest, WithoutADeadlineIsEndedByTheConnectionsAge) {
  PostgresCluster::Shared();
  AttackedServer server(
      {"--connection-age-max=1s", "--connection-age-grace=1s"});
  RawConnection peer(server.address());
  peer.Send(BeginningOfACall(nullptr));
  EXPECT_TRUE(peer.AwaitClosed(absl::Seconds(5)));
}

}  // namespace
}  // namespace dedupe::testing
