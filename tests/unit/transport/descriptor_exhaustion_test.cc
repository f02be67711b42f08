// A server that has run out of descriptors, and whether it takes callers in
// once they are back: ours does, gRPC's own listener does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/transport/descriptor.h"
#include "tests/support/grpc_client.h"
#include "tests/support/process.h"
#include "tests/unit/transport/echo_server.h"
#include "tests/unit/transport/raw_peer.h"

namespace dedupe {
namespace {

using ::dedupe::testing::BuildDirectory;
using ::dedupe::testing::CallRaw;
using ::dedupe::testing::ClosedWithin;
using ::dedupe::testing::ConnectRaw;
using ::dedupe::testing::EchoService;
using ::dedupe::testing::OpenChannel;
using ::dedupe::testing::Process;
using ::dedupe::testing::ScratchDirectory;
using ::testing::HasSubstr;
using ::testing::Not;

// More than the server can have, by far.
constexpr int kPeers = 400;
constexpr absl::Duration kHeld = absl::Seconds(2);

class DescriptorExhaustionTest : public ::testing::Test {
 protected:
  void StartServer(std::vector<std::string> arguments) {
    // 400 peers here, and what the test needs itself.
    ASSERT_GE(RaiseDescriptorLimit(), kPeers + 100);
    const std::string log =
        absl::StrCat(ScratchDirectory(), "/", absl::StrJoin(arguments, "-"));
    arguments.insert(arguments.begin(),
                     BuildDirectory() + "/tests/unit/listener_process");
    server_ = std::make_unique<Process>(arguments, testing::Environment(), log);
    ASSERT_TRUE(server_->WaitForOutput(".\n")) << server_->Output();
    const std::string output = server_->Output();
    const std::string said = "listening on ";
    port_ = std::atoi(output.c_str() + output.find(said) + said.size());
  }

  bool Answers(const std::shared_ptr<grpc::Channel>& channel,
               absl::Duration limit) const {
    return CallRaw(channel, EchoService::kEcho, "hello", limit).message ==
           "hello";
  }

  std::shared_ptr<grpc::Channel> NewCaller() const {
    return OpenChannel(absl::StrCat("127.0.0.1:", port_));
  }

  // Holds 400 silent connections for a while. Calls of a caller that was there
  // before are answered all the time.
  void Exhaust(std::vector<Descriptor>& peers) const {
    const auto caller = NewCaller();
    ASSERT_TRUE(Answers(caller, absl::Seconds(5)));
    for (int i = 0; i < kPeers; ++i) peers.push_back(ConnectRaw(port_));
    const absl::Time until = absl::Now() + kHeld;
    while (absl::Now() < until) {
      EXPECT_TRUE(Answers(caller, absl::Seconds(2)));
      absl::SleepFor(absl::Milliseconds(50));
    }
  }

  void ExpectAcceptorRecovers() const {
    std::vector<Descriptor> peers;
    Exhaust(peers);
    EXPECT_TRUE(ClosedWithin(peers.back(), absl::ZeroDuration()));
    EXPECT_FALSE(ClosedWithin(peers.front(), absl::ZeroDuration()));
    peers.clear();
    const absl::Duration taken = TimeToServe(absl::Seconds(10));
    std::cout << "a new caller is served after " << taken << std::endl;
    EXPECT_LE(taken, absl::Seconds(2));
  }

  // How long it takes until a new caller is answered; infinite if none is.
  absl::Duration TimeToServe(absl::Duration limit) const {
    const absl::Time start = absl::Now();
    while (absl::Now() - start < limit) {
      if (Answers(NewCaller(), absl::Seconds(1))) return absl::Now() - start;
    }
    return absl::InfiniteDuration();
  }

  std::unique_ptr<Process> server_;
  int port_ = 0;
};

// A connection takes two, so the one or the other of these finds the last
// descriptor gone when it accepts, and the other when it has accepted.
TEST_F(DescriptorExhaustionTest, AcceptorServesNewCallersAfterwards) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer opens a pipe to check an object,"
                  " and takes the object for a broken one if it gets none";
#endif
  for (const std::string descriptors : {"256", "257"}) {
    StartServer({descriptors, "100000"});
    ExpectAcceptorRecovers();
    // Else it proved nothing.
    EXPECT_THAT(server_->Output(), HasSubstr("Too many open files"));
  }
}

TEST_F(DescriptorExhaustionTest, AcceptorWithABoundNeverRunsOut) {
  StartServer({"256", "100"});
  ExpectAcceptorRecovers();
  EXPECT_THAT(server_->Output(), HasSubstr("connections_refused"));
  EXPECT_THAT(server_->Output(), Not(HasSubstr("Too many open files")));
}

// Why there is an Acceptor. If this fails, gRPC has learnt to go on, and its
// own listener may do.
TEST_F(DescriptorExhaustionTest, ListenerOfGrpcNeverServesANewCallerAgain) {
  StartServer({"256"});
  std::vector<Descriptor> peers;
  Exhaust(peers);
  peers.clear();
  EXPECT_EQ(TimeToServe(absl::Seconds(15)), absl::InfiniteDuration());
  EXPECT_TRUE(server_->running());
}

}  // namespace
}  // namespace dedupe
