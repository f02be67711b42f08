#include "server/transport/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/telemetry/metrics.h"
#include "tests/support/grpc_client.h"
#include "tests/unit/transport/echo_server.h"
#include "tests/unit/transport/raw_peer.h"

namespace dedupe {
namespace {

using ::dedupe::testing::Becomes;
using ::dedupe::testing::CallRaw;
using ::dedupe::testing::ClosedWithin;
using ::dedupe::testing::ConnectRaw;
using ::dedupe::testing::EchoServer;
using ::dedupe::testing::EchoService;
using ::dedupe::testing::IsOk;
using ::dedupe::testing::OpenChannel;
using ::dedupe::testing::OpenDescriptors;
using ::dedupe::testing::RawReply;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr absl::Duration kLimit = absl::Seconds(10);

using Channel = std::shared_ptr<grpc::Channel>;

std::string PeerOf(const Channel& channel) {
  const RawReply reply = CallRaw(channel, EchoService::kPeer, "");
  EXPECT_THAT(reply, IsOk());
  return reply.message;
}

bool Answers(const Channel& channel) {
  return CallRaw(channel, EchoService::kEcho, "hello").message == "hello";
}

absl::StatusOr<std::unique_ptr<Acceptor>> OpenAt(const std::string& address) {
  return Acceptor::Open(
      {.address = *ListenAddress::Resolve(address), .connections_max = 1});
}

bool HasIpv6() { return OpenAt("[::1]:0").ok(); }

TEST(AcceptorTest, ServesOverIpv4) {
  EchoServer server;
  const Channel channel = OpenChannel(server.address());
  EXPECT_TRUE(Answers(channel));
  EXPECT_THAT(PeerOf(channel), MatchesRegex("ipv4:127\\.0\\.0\\.1:[0-9]+"));
}

TEST(AcceptorTest, ServesOverIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  EchoServer server({.address = "[::1]:0"});
  const Channel channel = OpenChannel(server.address());
  EXPECT_TRUE(Answers(channel));
  EXPECT_THAT(PeerOf(channel), MatchesRegex("ipv6:(%5B|\\[)::1(%5D|\\]):.+"));
}

TEST(AcceptorTest, EveryIpv6AddressTakesIpv4InToo) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  EchoServer server({.address = "[::]:0"});
  const Channel channel =
      OpenChannel(absl::StrCat("127.0.0.1:", server.acceptor().port()));
  EXPECT_TRUE(Answers(channel));
  EXPECT_TRUE(server.acceptor().Cut(PeerOf(channel)));
}

// The port that the kernel picks for the first address may be in use at the
// second one, so this takes a few attempts to find one that is free.
std::string FreeAddressOfAName() {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto acceptor = OpenAt("localhost:0");
    if (acceptor.ok()) return absl::StrCat("localhost:", (*acceptor)->port());
  }
  return "";
}

TEST(AcceptorTest, ServesEveryAddressOfAName) {
  EchoServer server({.address = FreeAddressOfAName()});
  const auto resolved = *ListenAddress::Resolve(server.address());
  for (const SocketAddress& address : resolved.addresses()) {
    const bool is_ipv4 = address.storage.ss_family == AF_INET;
    if (!is_ipv4 && !HasIpv6()) continue;
    EXPECT_TRUE(Answers(OpenChannel(absl::StrCat(
        is_ipv4 ? "127.0.0.1" : "[::1]", ":", server.acceptor().port()))));
  }
}

TEST(AcceptorTest, PortInUseIsUnavailable) {
  EchoServer server;
  const auto second = OpenAt(server.address());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(
      std::string(second.status().message()),
      HasSubstr(absl::StrCat("cannot listen on \"", server.address(),
                             "\": it is in use; set --listen-address")));
}

// Addresses of blocks that are for documentation only (RFC 5737, RFC 3849).
TEST(AcceptorTest, ForeignAddressIsUnavailable) {
  for (const std::string address : {"192.0.2.1:0", "[2001:db8::1]:0"}) {
    const auto acceptor = OpenAt(address);
    EXPECT_TRUE(absl::IsUnavailable(acceptor.status())) << acceptor.status();
    EXPECT_THAT(std::string(acceptor.status().message()),
                HasSubstr(absl::StrCat("cannot listen on \"", address, "\"")));
  }
}

TEST(AcceptorTest, WhoComesBeforeStartIsServedAfterIt) {
  auto acceptor = *OpenAt("127.0.0.1:0");
  const Channel channel =
      OpenChannel(absl::StrCat("127.0.0.1:", acceptor->port()));
  ASSERT_NE(channel->GetState(true), GRPC_CHANNEL_SHUTDOWN);
  EchoService service;
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service);
  acceptor->AddTo(builder, grpc::InsecureServerCredentials());
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  acceptor->Start();
  EXPECT_TRUE(Answers(channel));
  acceptor->Stop();
}

TEST(AcceptorTest, CountsConnectionsUpAndDown) {
  EchoServer server;
  const int64_t accepted = ReadMetric(Metric::kConnectionsAccepted);
  std::vector<Channel> channels;
  for (int i = 1; i <= 5; ++i) {
    channels.push_back(OpenChannel(server.address()));
    EXPECT_TRUE(Answers(channels.back()));
    EXPECT_EQ(server.acceptor().connections(), i);
  }
  EXPECT_EQ(ReadMetric(Metric::kConnectionsAccepted), accepted + 5);
  channels.clear();
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
}

TEST(AcceptorTest, ForgetsPeersThatSpeakNoHttp2) {
  EchoServer server;
  const Descriptor peer = ConnectRaw(server.acceptor().port());
  EXPECT_TRUE(Becomes([&] {
    return send(peer.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18;
  }));
  EXPECT_TRUE(ClosedWithin(peer, kLimit));
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
}

TEST(AcceptorTest, ForgetsPeersThatReset) {
  EchoServer server;
  for (int i = 0; i < 50; ++i) {
    const Descriptor peer = ConnectRaw(server.acceptor().port());
    const linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  EXPECT_TRUE(Answers(OpenChannel(server.address())));
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
}

TEST(AcceptorTest, ForgetsConnectionsThatGrpcEnds) {
  EchoServer server({.connection_age_max = absl::Milliseconds(100)});
  const Channel channel = OpenChannel(server.address());
  EXPECT_TRUE(Answers(channel));
  EXPECT_EQ(server.acceptor().connections(), 1);
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
}

TEST(AcceptorTest, KeepsNoDescriptorOfWhatHasEnded) {
  EchoServer server;
  EXPECT_TRUE(Answers(OpenChannel(server.address())));
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
  const int before = OpenDescriptors();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Answers(OpenChannel(server.address())));
  }
  EXPECT_TRUE(Becomes([&] {
    return server.acceptor().connections() == 0 && OpenDescriptors() <= before;
  })) << OpenDescriptors()
      << " are open, and before there were " << before;
}

TEST(AcceptorTest, RefusesBeyondTheBoundAndServesAgainLater) {
  EchoServer server({.connections_max = 2});
  const int64_t refused = ReadMetric(Metric::kConnectionsRefused);
  Descriptor first = ConnectRaw(server.acceptor().port());
  const Channel second = OpenChannel(server.address());
  EXPECT_TRUE(Answers(second));
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 2; }));

  EXPECT_TRUE(ClosedWithin(ConnectRaw(server.acceptor().port()), kLimit));
  EXPECT_EQ(ReadMetric(Metric::kConnectionsRefused), refused + 1);
  EXPECT_TRUE(Answers(second));

  first.Close();
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 1; }));
  EXPECT_TRUE(Answers(OpenChannel(server.address())));
}

TEST(AcceptorTest, CutEndsThatConnectionAlone) {
  EchoServer server;
  const Channel kept = OpenChannel(server.address());
  const Channel cut = OpenChannel(server.address());
  const std::string peer_kept = PeerOf(kept);
  const std::string peer_cut = PeerOf(cut);
  ASSERT_NE(peer_kept, peer_cut);

  EXPECT_TRUE(server.acceptor().Cut(peer_cut));
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 1; }));
  EXPECT_FALSE(server.acceptor().Cut(peer_cut));
  EXPECT_EQ(PeerOf(kept), peer_kept);
  EXPECT_NE(PeerOf(cut), peer_cut);
}

TEST(AcceptorTest, CutCanKeepTheHostOutForAWhile) {
  EchoServer server;
  const Channel kept = OpenChannel(server.address());
  const Channel cut = OpenChannel(server.address());
  const std::string peer_kept = PeerOf(kept);
  EXPECT_TRUE(server.acceptor().Cut(PeerOf(cut), absl::Seconds(1)));
  const absl::Time cut_at = absl::Now();
  EXPECT_TRUE(ClosedWithin(ConnectRaw(server.acceptor().port()), kLimit));
  EXPECT_EQ(PeerOf(kept), peer_kept);
  EXPECT_TRUE(Becomes([&] { return Answers(OpenChannel(server.address())); }));
  EXPECT_GE(absl::Now() - cut_at, absl::Seconds(1));
}

TEST(AcceptorTest, CutKnowsIpv6Peers) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  EchoServer server({.address = "[::1]:0"});
  const Channel channel = OpenChannel(server.address());
  EXPECT_TRUE(server.acceptor().Cut(PeerOf(channel)));
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
}

TEST(AcceptorTest, CutOfAStrangerDoesNothing) {
  EchoServer server;
  const Channel channel = OpenChannel(server.address());
  EXPECT_TRUE(Answers(channel));
  for (const std::string peer :
       {"", "unix:", "ipv4:127.0.0.1:1", "ipv4:127.0.0.1", "x"}) {
    EXPECT_FALSE(server.acceptor().Cut(peer)) << peer;
  }
  EXPECT_EQ(server.acceptor().connections(), 1);
}

TEST(AcceptorTest, StopKeepsWhatIsOpen) {
  EchoServer server;
  const Channel channel = OpenChannel(server.address());
  const std::string peer = PeerOf(channel);
  server.acceptor().Stop();
  server.acceptor().Stop();
  EXPECT_TRUE(ClosedWithin(ConnectRaw(server.acceptor().port()), kLimit));
  EXPECT_TRUE(OpenAt(server.address()).ok());
  EXPECT_EQ(PeerOf(channel), peer);
  EXPECT_TRUE(server.acceptor().Cut(peer));
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
}

TEST(AcceptorTest, ConnectionsInheritWhatTheListenerSets) {
  EchoServer server;
  const Descriptor peer = ConnectRaw(server.acceptor().port());
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 1; }));
  int found = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in other = {};
    socklen_t length = sizeof(other);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&other), &length) != 0 ||
        ntohs(other.sin_port) != testing::LocalPort(peer)) {
      continue;
    }
    unsigned int timeout = 0;
    length = sizeof(timeout);
    getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &length);
    EXPECT_EQ(timeout, 20'000u);
    int no_delay = 0;
    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &length);
    EXPECT_EQ(no_delay, 1);
    ++found;
  }
  // gRPC's descriptor and the duplicate.
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace dedupe
