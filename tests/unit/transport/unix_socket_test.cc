// The Acceptor on a Unix socket, and what becomes of the socket's file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/transport/acceptor.h"
#include "tests/support/grpc_client.h"
#include "tests/support/process.h"
#include "tests/unit/transport/echo_server.h"
#include "tests/unit/transport/raw_peer.h"

namespace dedupe {
namespace {

namespace fs = std::filesystem;

using ::dedupe::testing::Becomes;
using ::dedupe::testing::CallRaw;
using ::dedupe::testing::EchoServer;
using ::dedupe::testing::EchoService;
using ::dedupe::testing::OpenChannel;
using ::testing::HasSubstr;

class UnixSocketTest : public ::testing::Test {
 protected:
  ~UnixSocketTest() override { fs::remove(path_); }

  absl::StatusOr<std::unique_ptr<Acceptor>> Open() const {
    return Acceptor::Open(
        {.address = *ListenAddress::Resolve(address_), .connections_max = 1});
  }

  const std::string path_ =
      absl::StrCat(testing::ScratchDirectory(), "/socket");
  const std::string address_ = "unix:" + path_;
};

TEST_F(UnixSocketTest, Serves) {
  EchoServer server({.address = address_});
  auto channel = OpenChannel(address_);
  EXPECT_EQ(CallRaw(channel, EchoService::kEcho, "hello").message, "hello");
  EXPECT_EQ(CallRaw(channel, EchoService::kPeer, "").message, "unix:");
  EXPECT_EQ(server.acceptor().connections(), 1);
  EXPECT_FALSE(server.acceptor().Cut("unix:"));
  EXPECT_EQ(server.acceptor().port(), 0);
  channel.reset();
  EXPECT_TRUE(Becomes([&] { return server.acceptor().connections() == 0; }));
}

TEST_F(UnixSocketTest, StopRemovesTheFile) {
  const auto acceptor = *Open();
  EXPECT_TRUE(fs::is_socket(path_));
  acceptor->Stop();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(UnixSocketTest, StopLeavesTheFileOfAnother) {
  const auto acceptor = *Open();
  fs::remove(path_);
  std::ofstream(path_) << "mine";
  acceptor->Stop();
  EXPECT_TRUE(fs::is_regular_file(path_));
}

TEST_F(UnixSocketTest, FileOfADeadServerIsReplaced) {
  {
    const auto address = *ListenAddress::Resolve(address_);
    const SocketAddress& name = address.addresses().front();
    const Descriptor dead(socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(dead.get(), name.get(), name.length), 0);
    ASSERT_EQ(listen(dead.get(), 1), 0);
  }
  ASSERT_TRUE(fs::is_socket(path_));
  EchoServer server({.address = address_});
  EXPECT_EQ(CallRaw(OpenChannel(address_), EchoService::kEcho, "hello").message,
            "hello");
}

TEST_F(UnixSocketTest, FileOfALivingServerStays) {
  EchoServer server({.address = address_});
  const auto second = Open();
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("it is in use"));
  EXPECT_EQ(CallRaw(OpenChannel(address_), EchoService::kEcho, "hello").message,
            "hello");
}

TEST_F(UnixSocketTest, FileOfAnotherKindStays) {
  std::ofstream(path_) << "mine";
  const auto acceptor = Open();
  EXPECT_TRUE(absl::IsUnavailable(acceptor.status())) << acceptor.status();
  EXPECT_THAT(std::string(acceptor.status().message()),
              HasSubstr("a file that is no socket is there"));
  EXPECT_TRUE(fs::is_regular_file(path_));
}

TEST_F(UnixSocketTest, MissingFolderIsUnavailable) {
  const auto acceptor = Acceptor::Open(
      {.address = *ListenAddress::Resolve("unix:/nowhere/socket"),
       .connections_max = 1});
  EXPECT_TRUE(absl::IsUnavailable(acceptor.status())) << acceptor.status();
}

}  // namespace
}  // namespace dedupe
