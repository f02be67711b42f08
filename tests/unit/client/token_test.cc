#include "client/src/token.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/test/client_context_test_peer.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dedupe/v1/dedupe.grpc.pb.h"
#include "tests/support/process.h"

namespace dedupe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// What a token becomes: the status, and the call's metadata.
struct Added {
  grpc::Status status;
  std::multimap<std::string, std::string> metadata;
};

Added Add(const TokenSource& source) {
  grpc::ClientContext context;
  Added added;
  added.status = AddToken(source, context);
  added.metadata =
      grpc::testing::ClientContextTestPeer(&context).GetSendInitialMetadata();
  return added;
}

Added Add(const std::string& token) {
  return Add([&token] { return token; });
}

TEST(AddTokenTest, TokenIsSentAsBearer) {
  const Added added = Add("dedupe_1.2");
  EXPECT_TRUE(added.status.ok());
  EXPECT_THAT(added.metadata,
              ElementsAre(Pair("authorization", "Bearer dedupe_1.2")));
}

TEST(AddTokenTest, NoTokenSendsNoHeader) {
  for (const TokenSource& source :
       {TokenSource(), TokenSource([] { return std::string(); })}) {
    const Added added = Add(source);
    EXPECT_TRUE(added.status.ok());
    EXPECT_THAT(added.metadata, IsEmpty());
  }
}

TEST(AddTokenTest, WhatCannotBeSentIsRefused) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string token = "dedupe_1.2";
    token[5] = static_cast<char>(byte);
    const Added added = Add(token);
    const bool is_visible = byte > 0x20 && byte < 0x7f;
    EXPECT_EQ(added.status.ok(), is_visible) << byte;
    EXPECT_EQ(added.metadata.empty(), !is_visible) << byte;
  }
  EXPECT_TRUE(Add(std::string(4096, 't')).status.ok());
  const grpc::Status too_long = Add(std::string(4097, 't')).status;
  EXPECT_EQ(too_long.error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

// Whoever reads the log is not told a secret.
TEST(AddTokenTest, RefusalDoesNotQuoteTheToken) {
  EXPECT_THAT(Add("secret\n").status.error_message(),
              ::testing::Not(::testing::HasSubstr("secret")));
}

TEST(AddTokenTest, SourceThatThrowsIsRefused) {
  const Added added =
      Add([]() -> std::string { throw std::runtime_error("no vault"); });
  EXPECT_EQ(added.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(added.metadata, IsEmpty());
}

[[noreturn]] void SendUnchecked(const std::string& token) {
  const auto stub = v1::DedupeService::NewStub(grpc::CreateChannel(
      "unix:/nowhere/socket", grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + token);
  v1::LookupResponse response;
  stub->Lookup(&context, {}, &response);
  std::exit(0);
}

// Why there is a check at all.
TEST(AddTokenDeathTest, GrpcAbortsOnWhatIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const std::string& token :
       {std::string("a\nb"), std::string("a\0b", 3), std::string("\xc3\xa9")}) {
    EXPECT_DEATH(SendUnchecked(token), "API misuse");
  }
}

// --- Files -------------------------------------------------------------------

class TokenFromFileTest : public ::testing::Test {
 protected:
  TokenFromFileTest()
      : path_(absl::StrCat(testing::ScratchDirectory(), "/token-",
                           absl::GetCurrentTimeNanos())),
        token_(TokenFromFile(path_)) {}

  void Write(const std::string& text) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  }
  // What it gives when the file has been read anew.
  std::string TokenLater() {
    const std::string before = token_();
    const absl::Time until = absl::Now() + absl::Seconds(1.2);
    while (absl::Now() < until && token_() == before) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    return token_();
  }

  const std::string path_;
  const TokenSource token_;
};

TEST_F(TokenFromFileTest, WhiteSpaceAroundItIsNotPartOfIt) {
  Write(" \r\n\tdedupe_1.2\r\n\n");
  EXPECT_EQ(token_(), "dedupe_1.2");
}

TEST_F(TokenFromFileTest, FileThatAppearsIsRead) {
  EXPECT_EQ(token_(), "");
  Write("first");
  EXPECT_EQ(TokenLater(), "first");
}

TEST_F(TokenFromFileTest, FileThatIsReplacedIsReadAnew) {
  Write("first");
  ASSERT_EQ(token_(), "first");
  std::ofstream(path_ + ".new") << "second";
  std::filesystem::rename(path_ + ".new", path_);
  EXPECT_EQ(TokenLater(), "second");
  Write("third");
  EXPECT_EQ(TokenLater(), "third");
}

TEST_F(TokenFromFileTest, TokenOutlastsItsFile) {
  Write("first");
  ASSERT_EQ(token_(), "first");
  Write(" \n");
  EXPECT_EQ(TokenLater(), "first");
  std::filesystem::remove(path_);
  EXPECT_EQ(TokenLater(), "first");
}

// Opening a pipe takes until somebody writes to it.
TEST_F(TokenFromFileTest, NeitherPipeNorFolderIsWaitedFor) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(token_(), "");
  EXPECT_EQ(TokenFromFile("/dev/zero")(), "");
  EXPECT_EQ(TokenFromFile("/")(), "");
}

TEST_F(TokenFromFileTest, LargeFileIsNoToken) {
  Write(std::string(1'000'000, 't'));
  EXPECT_LE(token_().size(), 8192u);
  EXPECT_EQ(Add(token_).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace dedupe::client
