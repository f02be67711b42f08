// What a call is told of its peer, over real connections.
#include "server/tls/peer_names.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/tls/revocation.h"
#include "tests/support/certificates.h"
#include "tests/unit/tls/tls_client.h"
#include "tests/unit/tls/tls_server.h"

namespace dedupe {
namespace {

using testing::CallResult;
using testing::CertificateAndKey;
using testing::CertificateAuthority;
using testing::CertificateOptions;

class PeerNamesTest : public ::testing::Test {
 protected:
  PeerNamesTest() {
    const CertificateAndKey pair = ca_.Issue();
    LoadedCertificate loaded;
    loaded.certificate_pem = pair.certificate_pem;
    loaded.key_pem = pair.key_pem;
    loaded.client_ca_pem = ca_.certificate_pem();
    credentials_ =
        std::make_unique<TlsCredentials>(loaded, ClientCertificates::kOptional);
    server_ = std::make_unique<testing::TlsServer>(*credentials_);
  }

  std::string ReplyTo(const CertificateAndKey& own) {
    const CallResult result =
        testing::Call(server_->port(), {ca_.certificate_pem(), own});
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    return result.reply;
  }

  // PeerNames of a caller with these names.
  std::string NamesOf(std::vector<std::string> alternative_names) {
    CertificateOptions options;
    options.common_name = "common";
    options.alternative_names = std::move(alternative_names);
    const CertificateAndKey own = ca_.Issue(options);
    const std::string reply = ReplyTo(own);
    const size_t end = reply.find("\n\n");
    EXPECT_EQ(reply.substr(end + 2).find(own.certificate_pem), 0U) << reply;
    return reply.substr(0, end);
  }

  CertificateAuthority ca_{"acme"};
  std::unique_ptr<TlsCredentials> credentials_;
  std::unique_ptr<testing::TlsServer> server_;
};

TEST_F(PeerNamesTest, SpiffeIdComesFirstAndOnce) {
  EXPECT_EQ(NamesOf({"DNS:shop.internal", "URI:spiffe://prod/shop"}),
            "uri:spiffe://prod/shop\ndns:shop.internal");
}

TEST_F(PeerNamesTest, UrisComeBeforeDnsNames) {
  EXPECT_EQ(NamesOf({"DNS:a.internal", "URI:urn:acme:shop", "DNS:b.internal"}),
            "uri:urn:acme:shop\ndns:a.internal\ndns:b.internal");
}

TEST_F(PeerNamesTest, SeveralUrisAreAllThere) {
  EXPECT_EQ(NamesOf({"URI:spiffe://prod/one", "URI:spiffe://prod/two"}),
            "uri:spiffe://prod/one\nuri:spiffe://prod/two");
}

TEST_F(PeerNamesTest, AddressesMailboxesAndCommonNameAreNoNames) {
  EXPECT_EQ(NamesOf({"IP:127.0.0.1", "email:shop@acme.example"}), "");
  EXPECT_EQ(NamesOf({}), "");
}

TEST_F(PeerNamesTest, CallerWithoutCertificateHasNone) {
  EXPECT_EQ(ReplyTo({}), "\n\n");
}

TEST_F(PeerNamesTest, CertificatesAreTheWholeChain) {
  CertificateAuthority below = ca_.IssueAuthority("acme shop");
  CertificateAndKey own = below.Issue();
  own.certificate_pem += below.certificate_pem();
  EXPECT_EQ(ReplyTo(own),
            absl::StrCat("dns:localhost\n\n", own.certificate_pem));
}

// B55: gRPC lets a revoked certificate in, so that each call is judged.
TEST_F(PeerNamesTest, CertificatesTellRevocationWhoIsRevoked) {
  const CertificateAndKey own = ca_.Issue();
  const std::string reply = ReplyTo(own);
  const std::string certificates = reply.substr(reply.find("\n\n") + 2);
  Revocation revocation;
  EXPECT_EQ(revocation.Judge(certificates, absl::Now()),
            CertificateVerdict::kGood);
  revocation.Replace(ca_.Crl({own.certificate_pem}), ca_.certificate_pem());
  EXPECT_EQ(revocation.Judge(certificates, absl::Now()),
            CertificateVerdict::kRevoked);
}

TEST_F(PeerNamesTest, PlaintextPeerHasNone) {
  grpc::ServerBuilder builder;
  testing::PeerEcho service;
  builder.RegisterCallbackGenericService(&service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  const auto server = builder.BuildAndStart();
  const CallResult result = testing::CallPlain(port);
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.reply, "\n\n");
  server->Shutdown();
}

}  // namespace
}  // namespace dedupe
