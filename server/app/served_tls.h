// What it takes to serve TLS: the credentials, the lists of what is revoked,
// and the watch that keeps both current.
#ifndef DEDUPE_SERVER_APP_SERVED_TLS_H_
#define DEDUPE_SERVER_APP_SERVED_TLS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/tls/certificate_watch.h"
#include "server/tls/loaded_certificate.h"
#include "server/tls/revocation.h"
#include "server/tls/tls_credentials.h"

namespace dedupe {

// Thread-safe. Must outlive the server that has its credentials.
class ServedTls {
 public:
  // FAILED_PRECONDITION: the files are not fit to be served; the message says
  // which and why.
  static absl::StatusOr<std::unique_ptr<ServedTls>> Open(
      const Config::Tls& config);

  std::shared_ptr<grpc::ServerCredentials> MakeCredentials() {
    return credentials_.MakeForPort();
  }
  // The names in the certificate of a connection, as Authenticator::ReadPeer.
  absl::StatusOr<std::vector<std::string>> ReadPeer(
      const grpc::AuthContext& connection);
  // Looks at the files now.
  void Reload() { watch_.Poke(); }

 private:
  ServedTls(const Config::Tls& config, const LoadedCertificate& first);

  TlsCredentials credentials_;
  Revocation revocation_;
  CertificateWatch watch_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_SERVED_TLS_H_
