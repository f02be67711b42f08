// Callers: one that makes a TLS connection by itself and looks at it, and one
// of gRPC.
#ifndef DEDUPE_TESTS_UNIT_TLS_TLS_CLIENT_H_
#define DEDUPE_TESTS_UNIT_TLS_TLS_CLIENT_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/support/certificates.h"

namespace dedupe::testing {

struct Caller {
  // Of the servers that it trusts.
  std::string ca_pem;
  // Empty: none.
  CertificateAndKey own = {};
  // Only this version and these cipher suites of TLS 1.2; 0 and empty: any.
  int tls_version = 0;
  std::string ciphers = {};
};

struct Handshake {
  std::string server_serial;
  std::string version;
  std::string cipher;
};

// Connects to a port of 127.0.0.1, verifies the server as `localhost`, and
// waits for the first bytes of its HTTP/2. UNAVAILABLE, within 5 s: what went
// wrong.
absl::StatusOr<Handshake> Connect(int port, const Caller& caller);
// On a connected socket; takes the descriptor.
absl::StatusOr<Handshake> ConnectOver(int descriptor, const Caller& caller);

// Sends this without TLS and gives what comes back until the server closes the
// connection. UNAVAILABLE: it does not, for 5 s.
absl::StatusOr<std::string> SendPlain(int port, absl::string_view bytes);

struct CallResult {
  grpc::Status status;
  std::string reply;
};

// A call of gRPC on a connection of its own, at most 5 s.
CallResult Call(int port, const Caller& caller);
// Without TLS.
CallResult CallPlain(int port);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_TLS_TLS_CLIENT_H_
