#include "server/transport/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace dedupe {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

bool IsLocal(const std::string& text) {
  const auto address = ListenAddress::Resolve(text);
  EXPECT_TRUE(address.ok()) << address.status();
  return address.ok() && address->IsLocal();
}

TEST(ListenAddressTest, KeepsWhatItWasGiven) {
  const auto address = ListenAddress::Resolve("127.0.0.1:7733");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->text(), "127.0.0.1:7733");
  EXPECT_FALSE(address->IsUnixSocket());
  EXPECT_THAT(address->addresses(), SizeIs(1));
}

TEST(ListenAddressTest, LoopbackIsLocal) {
  EXPECT_TRUE(IsLocal("127.0.0.1:0"));
  EXPECT_TRUE(IsLocal("127.255.3.4:65535"));
  EXPECT_TRUE(IsLocal("[::1]:7733"));
  EXPECT_TRUE(IsLocal("[::ffff:127.0.0.9]:7733"));
  EXPECT_TRUE(IsLocal("localhost:7733"));
}

TEST(ListenAddressTest, WhatOthersCanReachIsNotLocal) {
  EXPECT_FALSE(IsLocal("0.0.0.0:7733"));
  EXPECT_FALSE(IsLocal("[::]:7733"));
  EXPECT_FALSE(IsLocal("[::ffff:0.0.0.0]:7733"));
  EXPECT_FALSE(IsLocal("[::ffff:10.0.0.1]:7733"));
  EXPECT_FALSE(IsLocal("128.0.0.1:7733"));
  EXPECT_FALSE(IsLocal("126.255.255.255:7733"));
  EXPECT_FALSE(IsLocal("[::2]:7733"));
  // Another spelling of 0.0.0.0.
  EXPECT_FALSE(IsLocal("0:7733"));
}

TEST(ListenAddressTest, UnixSocketIsLocal) {
  EXPECT_TRUE(IsLocal("unix:/run/dedupe/socket"));
  EXPECT_TRUE(IsLocal("unix:///run/dedupe/socket"));
  EXPECT_TRUE(IsLocal("unix:relative"));
  EXPECT_TRUE(ListenAddress::Resolve("unix:a:b")->IsUnixSocket());
  EXPECT_TRUE(IsLocal("unix:" + std::string(107, 'p')));
}

TEST(ListenAddressTest, RefusesWhatIsNoAddress) {
  for (const std::string& text : {std::string(),
                                  std::string(":"),
                                  std::string("localhost"),
                                  std::string("localhost:"),
                                  std::string(":7733"),
                                  std::string("*:7733"),
                                  std::string("[]:1"),
                                  std::string("[:1"),
                                  std::string("[::1]"),
                                  std::string("[::1"),
                                  std::string("::1:7733"),
                                  std::string("[127.0.0.1]:1"),
                                  std::string("[::1]x:1"),
                                  std::string("[localhost]:1"),
                                  std::string("127.0.0.1:65536"),
                                  std::string("127.0.0.1:-1"),
                                  std::string("127.0.0.1:+1"),
                                  std::string("127.0.0.1: 1"),
                                  std::string("127.0.0.1:http"),
                                  std::string("127.0.0.1:000001"),
                                  std::string("unix:"),
                                  "unix:" + std::string(108, 'p'),
                                  std::string("unix:a\0b", 8),
                                  std::string("a\0b:1", 5)}) {
    const auto address = ListenAddress::Resolve(text);
    EXPECT_TRUE(absl::IsInvalidArgument(address.status()))
        << text << ": " << address.status();
    EXPECT_THAT(std::string(address.status().message()),
                HasSubstr("--listen-address (DEDUPE_LISTEN_ADDRESS)"));
  }
}

// No name below .invalid exists (RFC 6761).
TEST(ListenAddressTest, UnknownHostIsUnavailable) {
  const auto address = ListenAddress::Resolve("nowhere.invalid:7733");
  EXPECT_TRUE(absl::IsUnavailable(address.status())) << address.status();
  EXPECT_THAT(std::string(address.status().message()),
              HasSubstr("--listen-address (DEDUPE_LISTEN_ADDRESS)"));
}

}  // namespace
}  // namespace dedupe
