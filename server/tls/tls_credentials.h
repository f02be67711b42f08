// gRPC's server credentials whose certificates can be replaced while they are
// served.
#ifndef DEDUPE_SERVER_TLS_TLS_CREDENTIALS_H_
#define DEDUPE_SERVER_TLS_TLS_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/tls/loaded_certificate.h"

namespace dedupe {

enum class ClientCertificates {
  // A caller without one is not let in.
  kRequire,
  // A caller may have one; then it must be valid.
  kOptional,
};

// TLS 1.2 and 1.3, with the AEAD cipher suites over ECDHE that are gRPC's
// default. Callers' certificates are verified against the client CAs, unless
// there are none; gRPC does not look at revocation lists (see revocation.h).
//
// Thread-safe. Must outlive every server that has its credentials.
class TlsCredentials {
 public:
  // `first` is from JudgeCertificate. Whether it has client CAs is settled by
  // it for good: without, callers are not asked for certificates and
  // `client_certificates` does not count.
  TlsCredentials(const LoadedCertificate& first,
                 ClientCertificates client_certificates);
  ~TlsCredentials();
  TlsCredentials(const TlsCredentials&) = delete;
  TlsCredentials& operator=(const TlsCredentials&) = delete;

  // For one port or one acceptor: each needs its own. gRPC puts a replacement
  // in place when the next connection arrives, and takes no lock for it (its
  // issue 22489 tells of crashes): connections must arrive one after the other.
  // They do if one thread calls HandleNewConnection, which returns when that is
  // done; not if gRPC listens itself, on more than one socket.
  std::shared_ptr<grpc::ServerCredentials> MakeForPort();

  // `next` is from JudgeCertificate, with client CAs if the first had them.
  // Whoever connects afterwards gets it; connections that are open stay as they
  // are.
  void Replace(const LoadedCertificate& next);

 private:
  class Current;
  struct Port;

  const std::unique_ptr<Current> current_;
  const ClientCertificates client_certificates_;
  absl::Mutex mutex_;
  // What gRPC calls back with; it does not tell when it has done with one.
  std::vector<std::unique_ptr<Port>> ports_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_TLS_CREDENTIALS_H_
