// Who is let in, and with which certificate the server shows itself.
#include "server/tls/tls_credentials.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <string>

#include "absl/time/clock.h"
#include "tests/support/certificates.h"
#include "tests/unit/tls/tls_client.h"
#include "tests/unit/tls/tls_server.h"

namespace dedupe {
namespace {

using testing::Call;
using testing::Caller;
using testing::CertificateAndKey;
using testing::CertificateAuthority;
using testing::CertificateOptions;
using testing::Connect;
using ::testing::HasSubstr;
using testing::TlsServer;

class TlsCredentialsTest : public ::testing::Test {
 protected:
  static LoadedCertificate Loaded(const CertificateAndKey& pair,
                                  const std::string& client_ca = "") {
    LoadedCertificate loaded;
    loaded.certificate_pem = pair.certificate_pem;
    loaded.key_pem = pair.key_pem;
    loaded.client_ca_pem = client_ca;
    return loaded;
  }

  Caller WithCertificate(const CertificateAndKey& own) const {
    Caller caller;
    caller.ca_pem = server_ca_.certificate_pem();
    caller.own = own;
    return caller;
  }
  Caller Anonymous() const { return WithCertificate({}); }

  CertificateAuthority server_ca_{"acme servers"};
  CertificateAuthority client_ca_{"acme callers"};
  const CertificateAndKey pair_ = server_ca_.Issue();
};

// --- Without callers' certificates -------------------------------------------

class PlainTlsTest : public TlsCredentialsTest {
 protected:
  TlsCredentials credentials_{Loaded(pair_), ClientCertificates::kRequire};
  TlsServer server_{credentials_};
};

TEST_F(PlainTlsTest, LetsAnybodyIn) {
  const auto handshake = Connect(server_.port(), Anonymous());
  ASSERT_TRUE(handshake.ok()) << handshake.status();
  EXPECT_EQ(handshake->server_serial, pair_.serial);
  EXPECT_EQ(handshake->version, "TLSv1.3");
  EXPECT_TRUE(Call(server_.port(), Anonymous()).status.ok());
}

TEST_F(PlainTlsTest, ServesOnAPortOfGrpc) {
  grpc::ServerBuilder builder;
  testing::PeerEcho service;
  builder.RegisterCallbackGenericService(&service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials_.MakeForPort(), &port);
  const auto server = builder.BuildAndStart();
  const auto handshake = Connect(port, Anonymous());
  ASSERT_TRUE(handshake.ok()) << handshake.status();
  EXPECT_EQ(handshake->server_serial, pair_.serial);
  server->Shutdown();
}

TEST_F(PlainTlsTest, WhoConnectsAfterReplaceGetsTheNext) {
  const CertificateAndKey next = server_ca_.Issue();
  credentials_.Replace(Loaded(next));
  const auto handshake = Connect(server_.port(), Anonymous());
  ASSERT_TRUE(handshake.ok()) << handshake.status();
  EXPECT_EQ(handshake->server_serial, next.serial);
}

// What makes one accepting thread enough against gRPC's lack of a lock: the
// certificate is settled before the hand-over of a connection returns.
TEST_F(PlainTlsTest, CertificateIsSettledWhenAConnectionIsHandedOver) {
  const CertificateAndKey next = server_ca_.Issue();
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  credentials_.Replace(Loaded(next));
  server_.HandOver(ends[0]);
  credentials_.Replace(Loaded(pair_));
  const auto handshake = testing::ConnectOver(ends[1], Anonymous());
  ASSERT_TRUE(handshake.ok()) << handshake.status();
  EXPECT_EQ(handshake->server_serial, next.serial);
}

// The files are judged before; this is the second line.
TEST_F(PlainTlsTest, PairThatGrpcCannotUseLeavesTheOldInPlace) {
  CertificateAndKey mismatched = server_ca_.Issue();
  mismatched.key_pem = pair_.key_pem;
  ASSERT_TRUE(Connect(server_.port(), Anonymous()).ok());
  credentials_.Replace(Loaded(mismatched));
  const auto handshake = Connect(server_.port(), Anonymous());
  ASSERT_TRUE(handshake.ok()) << handshake.status();
  EXPECT_EQ(handshake->server_serial, pair_.serial);
}

TEST_F(PlainTlsTest, SpeaksTls12WithForwardSecrecyAndAeadOnly) {
  Caller caller = Anonymous();
  caller.ciphers = "ALL:@SECLEVEL=0";
  const auto handshake = Connect(server_.port(), caller);
  ASSERT_TRUE(handshake.ok()) << handshake.status();
  EXPECT_EQ(handshake->version, "TLSv1.2");
  EXPECT_THAT(handshake->cipher, HasSubstr("ECDHE-ECDSA-AES"));
  EXPECT_THAT(handshake->cipher, HasSubstr("-GCM-"));
  caller.ciphers = "ALL:!AESGCM:@SECLEVEL=0";
  EXPECT_FALSE(Connect(server_.port(), caller).ok());
}

// B54
TEST_F(PlainTlsTest, RefusesTls11) {
  Caller caller = Anonymous();
  caller.tls_version = TLS1_1_VERSION;
  EXPECT_FALSE(Connect(server_.port(), caller).ok());
  caller.tls_version = TLS1_2_VERSION;
  EXPECT_TRUE(Connect(server_.port(), caller).ok());
}

// B54
TEST_F(PlainTlsTest, ClosesWhatIsNotTls) {
  for (const char* bytes :
       {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    const auto answer = testing::SendPlain(server_.port(), bytes);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->find("HTTP"), std::string::npos);
  }
  EXPECT_TRUE(Connect(server_.port(), Anonymous()).ok());
}

// --- With --------------------------------------------------------------------

class MutualTlsTest : public TlsCredentialsTest,
                      public ::testing::WithParamInterface<ClientCertificates> {
 protected:
  TlsCredentials credentials_{Loaded(pair_, client_ca_.certificate_pem()),
                              GetParam()};
  TlsServer server_{credentials_};
};

TEST_P(MutualTlsTest, LetsCallersOfTheAuthorityIn) {
  const Caller caller = WithCertificate(client_ca_.Issue());
  EXPECT_TRUE(Connect(server_.port(), caller).ok());
  const grpc::Status status = Call(server_.port(), caller).status;
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_P(MutualTlsTest, LetsCallersBelowTheAuthorityIn) {
  CertificateAuthority below = client_ca_.IssueAuthority("acme shop");
  CertificateAndKey own = below.Issue();
  own.certificate_pem += below.certificate_pem();
  EXPECT_TRUE(Call(server_.port(), WithCertificate(own)).status.ok());
}

// B55
TEST_P(MutualTlsTest, RefusesBadCertificates) {
  CertificateOptions expired;
  expired.not_after = absl::Now() - absl::Minutes(1);
  CertificateOptions early;
  early.not_before = absl::Now() + absl::Hours(1);
  CertificateOptions server_only;
  server_only.extended_key_usage = "serverAuth";
  CertificateAuthority same_name("acme callers");
  for (const CertificateAndKey& own :
       {client_ca_.Issue(expired), client_ca_.Issue(early),
        client_ca_.Issue(server_only), server_ca_.Issue(), same_name.Issue()}) {
    const Caller caller = WithCertificate(own);
    EXPECT_FALSE(Connect(server_.port(), caller).ok());
    EXPECT_EQ(Call(server_.port(), caller).status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_TRUE(
      Connect(server_.port(), WithCertificate(client_ca_.Issue())).ok());
}

// B55
TEST_P(MutualTlsTest, CallerWithoutCertificateIsLetInIfOptional) {
  const bool let_in = GetParam() == ClientCertificates::kOptional;
  EXPECT_EQ(Connect(server_.port(), Anonymous()).ok(), let_in);
  EXPECT_EQ(Call(server_.port(), Anonymous()).status.error_code(),
            let_in ? grpc::StatusCode::OK : grpc::StatusCode::UNAVAILABLE);
}

TEST_P(MutualTlsTest, AuthoritiesAreReplacedToo) {
  CertificateAuthority next("acme callers, next");
  const Caller caller = WithCertificate(next.Issue());
  EXPECT_FALSE(Connect(server_.port(), caller).ok());
  credentials_.Replace(Loaded(pair_, next.certificate_pem()));
  EXPECT_TRUE(Connect(server_.port(), caller).ok());
  EXPECT_FALSE(
      Connect(server_.port(), WithCertificate(client_ca_.Issue())).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Modes, MutualTlsTest,
    ::testing::Values(ClientCertificates::kRequire,
                      ClientCertificates::kOptional),
    [](const ::testing::TestParamInfo<ClientCertificates>& mode) {
      return mode.param == ClientCertificates::kRequire ? "Require"
                                                        : "Optional";
    });

}  // namespace
}  // namespace dedupe
