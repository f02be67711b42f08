// Keepalive: as often as the client library pings, and not more often.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "grpc/health/v1/health.pb.h"
#include "tests/end_to_end/deployment.h"
#include "tests/end_to_end/http2_peer.h"

namespace dedupe::testing {
namespace {

class KeepaliveTest : public EndToEndTest {
 protected:
  // A connection with a call that does not end, as the client library has one:
  // it watches the server's health.
  static void Open(Http2Peer& peer) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service("liveness");
    peer.SendPreface();
    peer.SendHeaders("/grpc.health.v1.Health/Watch");
    peer.SendData(GrpcFrame(request.SerializeAsString()));
  }
};

// By default gRPC cuts off whoever pings more often than each five minutes,
// which looked to clients like a server that fails now and then.
TEST_F(KeepaliveTest, PingsOfTheClientLibraryAreBorne) {
  Http2Peer peer(Shared().server().address());
  Open(peer);
  // The library's are 30 s apart. The third ping too early ends a connection.
  for (int i = 0; i < 5; ++i) {
    peer.SendPing();
    const Http2Peer::Outcome outcome = peer.Read(absl::Seconds(21));
    ASSERT_FALSE(outcome.connection_was_closed) << outcome.goodbye;
  }
}

TEST_F(KeepaliveTest, FloodOfPingsIsCutOff) {
  Http2Peer peer(Shared().server().address());
  Open(peer);
  std::string goodbye;
  for (int i = 0; i < 6 && goodbye.empty(); ++i) {
    peer.SendPing();
    goodbye = peer.Read(absl::Seconds(1)).goodbye;
  }
  EXPECT_EQ(goodbye, "too_many_pings");
}

}  // namespace
}  // namespace dedupe::testing
