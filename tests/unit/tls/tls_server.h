// A gRPC server with TlsCredentials whose connections come from a thread that
// accepts them, and which answers every call with what the certificate of its
// peer says.
#ifndef DEDUPE_TESTS_UNIT_TLS_TLS_SERVER_H_
#define DEDUPE_TESTS_UNIT_TLS_TLS_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "server/tls/tls_credentials.h"

namespace dedupe::testing {

// One method of any name: the reply is PeerNames, one a line, an empty line and
// PeerCertificates.
class PeerEcho final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

class TlsServer {
 public:
  // The credentials must outlive it.
  explicit TlsServer(TlsCredentials& credentials);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  // On 127.0.0.1.
  int port() const { return port_; }
  // Gives it a connection by another way; takes the descriptor.
  void HandOver(int descriptor);

 private:
  void Accept();

  PeerEcho service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_TLS_TLS_SERVER_H_
