#include "server/transport/open_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/telemetry/metrics.h"
#include "server/transport/listening_sockets.h"
#include "tests/unit/transport/raw_peer.h"

namespace dedupe {
namespace {

using ::dedupe::testing::ConnectRaw;

class OpenConnectionsTest : public ::testing::Test {
 protected:
  OpenConnectionsTest() {
    const auto address = ListenAddress::Resolve("127.0.0.1:0");
    const auto listening = *ListeningSockets::Open(*address);
    peer_ = ConnectRaw(listening->port());
    name_.length = sizeof(name_.storage);
    EXPECT_TRUE(testing::Becomes([&] {
      accepted_ =
          Descriptor(accept4(listening->sockets().front().get(),
                             reinterpret_cast<sockaddr*>(&name_.storage),
                             &name_.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
      return accepted_.valid();
    }));
  }

  // What the loop would do; the number of the connection that ended.
  std::optional<uint64_t> NextEnd(absl::Duration limit) const {
    epoll_event event = {};
    const int ready =
        epoll_wait(epoll_.get(), &event, 1,
                   static_cast<int>(absl::ToInt64Milliseconds(limit)));
    if (ready != 1 || (event.events & EPOLLHUP) == 0) return std::nullopt;
    return uint64_t{event.data.u64};
  }

  const Descriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
  OpenConnections connections_{epoll_.get()};
  Descriptor peer_;
  Descriptor accepted_;
  SocketAddress name_;
};

TEST_F(OpenConnectionsTest, PeerThatFinishedSendingIsStillConnected) {
  ASSERT_EQ(connections_.Add(accepted_.get(), name_), 0);
  shutdown(peer_.get(), SHUT_WR);
  EXPECT_EQ(NextEnd(absl::Milliseconds(100)), std::nullopt);
  EXPECT_EQ(connections_.size(), 1);
}

TEST_F(OpenConnectionsTest, ReportsAConnectionThatIsShutDown) {
  ASSERT_EQ(connections_.Add(accepted_.get(), name_), 0);
  shutdown(accepted_.get(), SHUT_RDWR);
  accepted_.Close();
  const auto number = NextEnd(absl::Seconds(10));
  ASSERT_TRUE(number.has_value());
  connections_.Remove(*number);
  EXPECT_EQ(connections_.size(), 0);
  EXPECT_TRUE(testing::ClosedWithin(peer_, absl::Seconds(10)));
}

// gRPC may have shut the socket down before it is watched.
TEST_F(OpenConnectionsTest, ReportsAConnectionThatEndedBefore) {
  shutdown(accepted_.get(), SHUT_RDWR);
  ASSERT_EQ(connections_.Add(accepted_.get(), name_), 0);
  EXPECT_TRUE(NextEnd(absl::Seconds(10)).has_value());
}

// An entry in epoll outlives the descriptor that was closed, for as long as
// gRPC has not closed its own.
TEST_F(OpenConnectionsTest, NothingIsReportedOfWhatWasRemoved) {
  ASSERT_EQ(connections_.Add(accepted_.get(), name_), 0);
  shutdown(accepted_.get(), SHUT_RDWR);
  connections_.Remove(*NextEnd(absl::Seconds(10)));
  const linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(peer_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  peer_.Close();
  EXPECT_EQ(NextEnd(absl::Milliseconds(100)), std::nullopt);
}

// What the peer did not read would be kept for it until the connection times
// out.
TEST_F(OpenConnectionsTest, CutResetsAPeerThatDoesNotRead) {
  ASSERT_EQ(connections_.Add(accepted_.get(), name_), 0);
  const std::string chunk(64 * 1024, 'x');
  while (send(accepted_.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL) > 0) {
  }
  EXPECT_TRUE(connections_.Cut(
      absl::StrCat("ipv4:127.0.0.1:", testing::LocalPort(peer_))));
  accepted_.Close();
  connections_.Remove(*NextEnd(absl::Seconds(10)));
  std::string received(64 * 1024, ' ');
  EXPECT_TRUE(testing::Becomes([&] {
    return recv(peer_.get(), received.data(), received.size(), 0) < 0 &&
           errno == ECONNRESET;
  }));
}

// It may be tens of thousands of calls.
TEST_F(OpenConnectionsTest, CutThrowsAwayWhatThePeerHadSent) {
  ASSERT_EQ(connections_.Add(accepted_.get(), name_), 0);
  const std::string sent(1000, 'x');
  ASSERT_EQ(send(peer_.get(), sent.data(), sent.size(), MSG_NOSIGNAL), 1000);
  std::string received(1000, ' ');
  ASSERT_TRUE(testing::Becomes([&] {
    return recv(accepted_.get(), received.data(), 1, MSG_PEEK) == 1;
  }));
  EXPECT_TRUE(connections_.Cut(
      absl::StrCat("ipv4:127.0.0.1:", testing::LocalPort(peer_))));
  EXPECT_LE(recv(accepted_.get(), received.data(), received.size(), 0), 0);
}

TEST_F(OpenConnectionsTest, SaysWhyItCannotAdd) {
  EXPECT_EQ(connections_.Add(-1, name_), EBADF);
  EXPECT_EQ(connections_.size(), 0);
}

TEST_F(OpenConnectionsTest, KeepsTheGauge) {
  const int64_t before = ReadMetric(Metric::kConnections);
  {
    OpenConnections connections(epoll_.get());
    ASSERT_EQ(connections.Add(accepted_.get(), name_), 0);
    EXPECT_EQ(ReadMetric(Metric::kConnections), before + 1);
  }
  EXPECT_EQ(ReadMetric(Metric::kConnections), before);
}

}  // namespace
}  // namespace dedupe
