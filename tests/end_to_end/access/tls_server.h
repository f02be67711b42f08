// A server with TLS, its authorities, and callers with certificates.
#ifndef DEDUPE_TESTS_END_TO_END_ACCESS_TLS_SERVER_H_
#define DEDUPE_TESTS_END_TO_END_ACCESS_TLS_SERVER_H_

#include <string>
#include <vector>

#include "tests/end_to_end/access/guarded_server.h"
#include "tests/support/certificates.h"
#include "tests/unit/tls/certificate_folder.h"

namespace dedupe::testing {

inline CertificateAndKey IssueTo(
    CertificateAuthority& authority,
    const std::vector<std::string>& alternative_names,
    const std::string& common_name = "acme") {
  return authority.Issue(
      {.common_name = common_name, .alternative_names = alternative_names});
}

// A server with TLS that asks for certificates and takes tokens too.
class TlsServer {
 public:
  // settings: beyond those of TLS.
  explicit TlsServer(const std::string& client_certificates = "optional",
                     const std::vector<std::string>& settings = {},
                     PostgresCluster& cluster = PostgresCluster::Shared())
      : server_authority_("servers"),
        client_authority_("clients"),
        server_certificate_(server_authority_.Issue()),
        server_(Settings(client_certificates, settings), cluster) {}

  Deployment& deployment() { return server_; }
  Administrator administrator() { return Administrator(server_.url()); }
  CertificateAuthority& server_authority() { return server_authority_; }
  CertificateAuthority& client_authority() { return client_authority_; }
  CertificateFolder& folder() { return folder_; }
  int port() {
    const std::string& address = server_.server().address();
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

  Client NewClient(const CertificateAndKey& own = {},
                   const std::vector<std::string>& authorizations = {}) {
    // The certificate's name for it.
    return Client(absl::StrCat("localhost:", port()),
                  IdentityOf(own, authorizations));
  }
  Identity IdentityOf(const CertificateAndKey& own,
                      const std::vector<std::string>& authorizations) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = server_authority_.certificate_pem();
    options.pem_cert_chain = own.certificate_pem;
    options.pem_private_key = own.key_pem;
    Identity identity;
    identity.credentials = grpc::SslCredentials(options);
    identity.authorizations = authorizations;
    return identity;
  }
  // What a call gets once the server knows what was administered before.
  grpc::Status Settled(Client& client, grpc::StatusCode expected) {
    grpc::Status status;
    GuardedServer::Await([&] {
      status = client.Lookup(LookupOf(BeginOf("key", "attempt-1"))).status;
      return status.error_code() == expected;
    });
    return status;
  }

 private:
  std::vector<std::string> Settings(const std::string& client_certificates,
                                    std::vector<std::string> settings) {
    folder_.WritePair(server_certificate_);
    folder_.WriteClientCa(client_authority_.certificate_pem());
    folder_.WriteClientCrl(client_authority_.Crl({}));
    settings.insert(settings.end(),
                    {"--tls-certificate-file=" + folder_.files().certificate,
                     "--tls-key-file=" + folder_.files().key,
                     "--tls-client-ca-file=" + folder_.files().client_ca,
                     "--tls-client-crl-file=" + folder_.files().client_crl,
                     "--tls-client-certificates=" + client_certificates,
                     "--tls-reload-interval=200ms"});
    return settings;
  }

  CertificateAuthority server_authority_;
  CertificateAuthority client_authority_;
  CertificateAndKey server_certificate_;
  CertificateFolder folder_;
  Deployment server_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_ACCESS_TLS_SERVER_H_
