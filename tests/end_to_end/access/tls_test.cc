// TLS against the real server: who is let in by a certificate, and what
// plaintext gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/end_to_end/access/guarded_server.h"
#include "tests/end_to_end/access/tls_server.h"
#include "tests/support/certificates.h"
#include "tests/unit/tls/tls_client.h"

namespace dedupe::testing {
namespace {

constexpr auto kForbidden = grpc::StatusCode::PERMISSION_DENIED;
constexpr auto kUnauthenticated = grpc::StatusCode::UNAUTHENTICATED;
constexpr auto kUnavailable = grpc::StatusCode::UNAVAILABLE;

class TlsTest : public ::testing::Test {
 protected:
  static TlsServer& Server() {
    PostgresCluster::Shared();
    static TlsServer server;
    return server;
  }
};

TEST_F(TlsTest, SpiffeIdIsItsPrincipal) {
  Server().administrator().SetPrincipal(
      "spiffe", {"--role=caller", "--client-ids=acme",
                 "--certificates=uri:spiffe://prod/acme"});
  Client client = Server().NewClient(IssueTo(
      Server().client_authority(), {"URI:spiffe://prod/acme", "DNS:unknown"}));
  EXPECT_TRUE(Server().Settled(client, grpc::StatusCode::OK).ok());
  EXPECT_THAT(client.Begin(BeginOf("spiffe", "attempt-1")), IsStarted());
  v1::BeginRequest other = BeginOf("spiffe", "attempt-1");
  other.set_client_id("other");
  EXPECT_THAT(client.Begin(other),
              IsRefused(kForbidden, "CLIENT_ID_FORBIDDEN"));
}

TEST_F(TlsTest, DnsNameIsItsPrincipal) {
  Server().administrator().SetPrincipal(
      "dns", {"--role=reader", "--client-ids=acme",
              "--certificates=dns:reports.internal"});
  Client client = Server().NewClient(
      IssueTo(Server().client_authority(), {"DNS:reports.internal"}));
  EXPECT_TRUE(Server().Settled(client, grpc::StatusCode::OK).ok());
  EXPECT_THAT(client.Begin(BeginOf("dns", "attempt-1")),
              IsRefused(kForbidden, "METHOD_FORBIDDEN"));
}

TEST_F(TlsTest, B56CertificateOfNobodyIsToldSo) {
  Client client = Server().NewClient(
      IssueTo(Server().client_authority(), {"URI:spiffe://prod/nobody"}));
  EXPECT_THAT(client.Lookup(LookupOf(BeginOf("key", "attempt-1"))),
              IsRefused(kForbidden, "PEER_UNKNOWN"));
}

// CAs check it less than the other names.
TEST_F(TlsTest, CommonNameCountsForNothing) {
  Server().administrator().SetPrincipal("common",
                                        {"--role=caller", "--client-ids=acme",
                                         "--certificates=dns:common.internal"});
  Client right = Server().NewClient(
      IssueTo(Server().client_authority(), {"DNS:common.internal"}));
  ASSERT_TRUE(Server().Settled(right, grpc::StatusCode::OK).ok());
  Client by_common_name = Server().NewClient(
      IssueTo(Server().client_authority(), {"DNS:unknown"}, "common.internal"));
  EXPECT_THAT(by_common_name.Lookup(LookupOf(BeginOf("key", "attempt-1"))),
              IsRefused(kForbidden, "PEER_UNKNOWN"));
}

TEST_F(TlsTest, TokenSpeaksForTheCallWhateverTheCertificate) {
  const Administrator administrator = Server().administrator();
  administrator.SetPrincipal("bearer",
                             {"--role=caller", "--client-ids=bearer"});
  administrator.SetPrincipal("bystander", {"--role=admin", "--client-ids=*",
                                           "--certificates=dns:bystander"});
  const std::string token = administrator.CreateToken("bearer");
  const CertificateAndKey own =
      IssueTo(Server().client_authority(), {"DNS:bystander"});
  Client without = Server().NewClient(own);
  ASSERT_TRUE(Server().Settled(without, grpc::StatusCode::OK).ok());
  Client with = Server().NewClient(own, {"Bearer " + token});
  EXPECT_THAT(with.Lookup(LookupOf(BeginOf("key", "attempt-1"))),
              IsRefused(kForbidden, "CLIENT_ID_FORBIDDEN"));
  // A wrong one is not made good by the certificate.
  Client wrong = Server().NewClient(own, {"Bearer " + token + "0"});
  EXPECT_THAT(wrong.Lookup(LookupOf(BeginOf("key", "attempt-1"))),
              IsRefused(kUnauthenticated, "CREDENTIALS_REFUSED"));
}

TEST_F(TlsTest, TokenWithoutACertificateIsEnoughWhereItIsOptional) {
  const Administrator administrator = Server().administrator();
  administrator.SetPrincipal("alone", {"--role=caller", "--client-ids=acme"});
  Client client =
      Server().NewClient({}, {"Bearer " + administrator.CreateToken("alone")});
  EXPECT_TRUE(Server().Settled(client, grpc::StatusCode::OK).ok());
  Client nobody = Server().NewClient();
  EXPECT_THAT(nobody.Lookup(LookupOf(BeginOf("key", "attempt-1"))),
              IsRefused(kUnauthenticated, "CREDENTIALS_REFUSED"));
}

// Also on the connection that it has open.
TEST_F(TlsTest, B55RevokedCertificateLosesItsRights) {
  Server().administrator().SetPrincipal(
      "revoked", {"--role=caller", "--client-ids=acme",
                  "--certificates=dns:revoked.internal"});
  const CertificateAndKey own =
      IssueTo(Server().client_authority(), {"DNS:revoked.internal"});
  Client open = Server().NewClient(own);
  ASSERT_TRUE(Server().Settled(open, grpc::StatusCode::OK).ok());
  Server().folder().WriteClientCrl(
      Server().client_authority().Crl({own.certificate_pem}));
  EXPECT_EQ(ReasonOf(Server().Settled(open, kUnauthenticated)),
            "CREDENTIALS_REFUSED");
  Client anew = Server().NewClient(own);
  EXPECT_THAT(anew.Lookup(LookupOf(BeginOf("key", "attempt-1"))),
              IsRefused(kUnauthenticated, "CREDENTIALS_REFUSED"));
}

TEST_F(TlsTest, B55WrongCertificatesDoNotConnect) {
  CertificateAuthority other("others");
  const CertificateAndKey expired = Server().client_authority().Issue(
      {.alternative_names = {"DNS:acme"},
       .not_before = absl::Now() - absl::Hours(48),
       .not_after = absl::Now() - absl::Hours(24)});
  for (const CertificateAndKey& own : {IssueTo(other, {"DNS:acme"}), expired}) {
    Client client = Server().NewClient(own);
    EXPECT_EQ(client.Lookup(LookupOf(BeginOf("key", "attempt-1")))
                  .status.error_code(),
              kUnavailable);
  }
}

TEST_F(TlsTest, B55WithoutACertificateNobodyConnectsWhereItIsRequired) {
  TlsServer server("require");
  server.administrator().SetPrincipal("required",
                                      {"--role=caller", "--client-ids=acme",
                                       "--certificates=dns:acme.internal"});
  Client with = server.NewClient(
      IssueTo(server.client_authority(), {"DNS:acme.internal"}));
  EXPECT_TRUE(server.Settled(with, grpc::StatusCode::OK).ok());
  Client without = server.NewClient();
  EXPECT_EQ(
      without.Lookup(LookupOf(BeginOf("key", "attempt-1"))).status.error_code(),
      kUnavailable);
}

TEST_F(TlsTest, B54WhatIsNotTlsIsClosed) {
  for (const std::string& bytes :
       {std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost: acme\r\n\r\n"),
        std::string(1000, '\0')}) {
    const auto answer = SendPlain(Server().port(), bytes);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(absl::StrContains(*answer, "HTTP/2"));
  }
  const auto old = Connect(
      Server().port(), {.ca_pem = Server().server_authority().certificate_pem(),
                        .tls_version = 0x0302});  // TLS 1.1
  EXPECT_FALSE(old.ok());
}

}  // namespace
}  // namespace dedupe::testing
