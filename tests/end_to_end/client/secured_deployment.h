// The client library against a server that asks for TLS and credentials.
#ifndef DEDUPE_TESTS_END_TO_END_CLIENT_SECURED_DEPLOYMENT_H_
#define DEDUPE_TESTS_END_TO_END_CLIENT_SECURED_DEPLOYMENT_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dedupe/client.h"
#include "dedupe/key.h"
#include "dedupe/run_once.h"
#include "tests/end_to_end/access/tls_server.h"
#include "tests/end_to_end/client/client_deployment.h"

namespace dedupe::testing {

// Trusts the server's authority, and shows the certificate if there is one.
inline ::dedupe::client::ClientOptions SecuredOptions(
    TlsServer& server, const CertificateAndKey& own = {}) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = server.server_authority().certificate_pem();
  tls.pem_cert_chain = own.certificate_pem;
  tls.pem_private_key = own.key_pem;
  ::dedupe::client::ClientOptions options;
  options.credentials = grpc::SslCredentials(tls);
  return options;
}

// One server for the whole test program; each test has principals, and keys of
// client ids, of its own.
class SecuredTest : public ::testing::Test {
 protected:
  static TlsServer& Server() {
    // Before it, because it has to outlive it.
    PostgresCluster::Shared();
    static TlsServer server;
    return server;
  }
  static const std::string& Address() {
    return Server().deployment().server().address();
  }

  // A caller named like the test, who may use the client id of that name; a
  // token that the server knows already.
  static std::string NewToken(const std::vector<std::string>& options = {
                                  "--role=caller"}) {
    std::vector<std::string> all = options;
    all.push_back("--client-ids=" + Name());
    Server().administrator().SetPrincipal(Name(), all);
    return AnotherToken();
  }
  static std::string AnotherToken() {
    std::string token = Server().administrator().CreateToken(Name());
    Client client = Server().NewClient({}, {"Bearer " + token});
    EXPECT_TRUE(GuardedServer::Await([&] {
      return client.Lookup({}).status.error_code() !=
             grpc::StatusCode::UNAUTHENTICATED;
    }));
    return token;
  }

  // A client with this token, whose sendings are counted.
  std::unique_ptr<LibraryClient> Connect(
      const std::string& token,
      ::dedupe::client::ClientOptions options = SecuredOptions(Server())) {
    options.token = [this, token] {
      ++sendings_;
      return token;
    };
    return MakeLibraryClient(Address(), std::move(options));
  }
  int sendings() const { return sendings_; }

  static std::string Name() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  static ::dedupe::client::BeginRequest BeginFor(const std::string& key) {
    return {.client_id = Name(),
            .key = key,
            .operation = "POST /v1/charges",
            .fingerprint = std::string(32, 'f'),
            .attempt_id = ::dedupe::client::NewAttemptId(),
            .lease = {},
            .ttl = {}};
  }
  static ::dedupe::client::RunOnceRequest RunFor(const std::string& key) {
    ::dedupe::client::RunOnceRequest request;
    request.client_id = Name();
    request.key = key;
    request.fingerprint = "f";
    return request;
  }

 private:
  std::atomic<int> sendings_{0};
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_CLIENT_SECURED_DEPLOYMENT_H_
