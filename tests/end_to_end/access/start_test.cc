// Where the server refuses to start, because what it would say could be read by
// others, or its certificate is of no use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/end_to_end/access/tls_server.h"

namespace dedupe::testing {
namespace {

using ::testing::HasSubstr;

class StartTest : public ::testing::Test {
 protected:
  StartTest()
      : url_(PostgresCluster::Shared().Url(
            PostgresCluster::Shared().CreateMigratedDatabase(), kServerRole)) {}

  // Of a server that ends by itself.
  ProcessResult Serve(const std::vector<std::string>& settings) const {
    std::vector<std::string> argv = {DedupeBinary(), "serve"};
    argv.insert(argv.end(), settings.begin(), settings.end());
    return RunProcess(argv, {{"DEDUPE_DATABASE_URL", url_}}, absl::Seconds(10));
  }

  const std::string url_;
};

TEST_F(StartTest, PlaintextThatTheNetworkCanReachIsRefused) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    const ProcessResult result =
        Serve({absl::StrCat("--listen-address=", address)});
    EXPECT_EQ(result.exit_code, 1) << address;
    EXPECT_THAT(result.standard_error, HasSubstr("there is no TLS"));
    EXPECT_THAT(result.standard_error, HasSubstr("--plaintext-from-network"));
  }
}

TEST_F(StartTest, WhoSaysSoMayAndIsAskedForCredentials) {
  const std::string address = absl::StrCat("0.0.0.0:", FreePort());
  Process server({DedupeBinary(), "serve", "--plaintext-from-network",
                  "--listen-address=" + address},
                 {{"DEDUPE_DATABASE_URL", url_}},
                 ScratchDirectory() + "/plaintext.log");
  ASSERT_TRUE(server.WaitForOutput("\"event\":\"serving\""));
  EXPECT_THAT(server.Output(), HasSubstr("\"authentication\":\"required\""));
  EXPECT_THAT(server.Output(),
              HasSubstr("\"event\":\"plaintext_from_network\""));
}

TEST_F(StartTest, OpenToEverybodyIsSaidOutLoud) {
  const std::string address = absl::StrCat("0.0.0.0:", FreePort());
  Process server({DedupeBinary(), "serve", "--plaintext-from-network",
                  "--authentication=none", "--listen-address=" + address},
                 {{"DEDUPE_DATABASE_URL", url_}},
                 ScratchDirectory() + "/open.log");
  ASSERT_TRUE(server.WaitForOutput("\"event\":\"serving\""));
  EXPECT_THAT(server.Output(), HasSubstr("\"event\":\"no_authentication\""));
}

TEST_F(StartTest, LoopbackAndUnixSocketsAskNobody) {
  for (const std::string& address :
       {absl::StrCat("127.0.0.1:", FreePort()),
        absl::StrCat("localhost:", FreePort()),
        "unix:" + ScratchDirectory() + "/socket"}) {
    Process server({DedupeBinary(), "serve", "--listen-address=" + address},
                   {{"DEDUPE_DATABASE_URL", url_}},
                   ScratchDirectory() + "/local.log");
    ASSERT_TRUE(server.WaitForOutput("\"event\":\"ready\"")) << address;
    EXPECT_THAT(server.Output(), HasSubstr("\"authentication\":\"none\""));
    Client client(address);
    client.WaitForConnection();
    EXPECT_THAT(client.Lookup(LookupOf(BeginOf("key", "attempt-1"))), IsOk());
  }
}

TEST_F(StartTest, CredentialsCanBeAskedForOnAUnixSocketToo) {
  const std::string address = "unix:" + ScratchDirectory() + "/guarded";
  Process server({DedupeBinary(), "serve", "--listen-address=" + address,
                  "--authentication=required"},
                 {{"DEDUPE_DATABASE_URL", url_}},
                 ScratchDirectory() + "/guarded.log");
  ASSERT_TRUE(server.WaitForOutput("\"event\":\"ready\""));
  Client client(address);
  client.WaitForConnection();
  EXPECT_THAT(
      client.Lookup(LookupOf(BeginOf("key", "attempt-1"))),
      IsRefused(grpc::StatusCode::UNAUTHENTICATED, "CREDENTIALS_REFUSED"));
}

TEST_F(StartTest, CertificateThatIsNotFitIsRefusedWithTheReason) {
  CertificateAuthority authority("servers");
  CertificateFolder folder;
  const std::vector<std::string> settings = {
      absl::StrCat("--listen-address=127.0.0.1:", FreePort()),
      "--tls-certificate-file=" + folder.files().certificate,
      "--tls-key-file=" + folder.files().key};
  EXPECT_THAT(Serve(settings).standard_error,
              HasSubstr("--tls-certificate-file"));
  folder.WriteCertificate(authority.Issue().certificate_pem);
  folder.WriteKey(authority.Issue().key_pem);
  const ProcessResult mismatched = Serve(settings);
  EXPECT_EQ(mismatched.exit_code, 1);
  EXPECT_THAT(mismatched.standard_error, HasSubstr("--tls-key-file"));
  folder.WritePair(
      authority.Issue({.not_before = absl::Now() - absl::Hours(2),
                       .not_after = absl::Now() - absl::Hours(1)}));
  EXPECT_EQ(Serve(settings).exit_code, 1);
}

TEST_F(StartTest, AddressInUseIsSaid) {
  ServerProcess first(
      {.database_url = url_, .settings = {}, .environment = {}});
  const ProcessResult second = Serve({"--listen-address=" + first.address()});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.standard_error, HasSubstr("it is in use"));
}

}  // namespace
}  // namespace dedupe::testing
