#include "tests/unit/tls/tls_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/tls/peer_names.h"

namespace dedupe::testing {
namespace {

// One request, one reply.
class EchoCall final : public grpc::ServerGenericBidiReactor {
 public:
  explicit EchoCall(const std::string& reply) {
    const grpc::Slice slice(reply);
    reply_ = grpc::ByteBuffer(&slice, 1);
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

int Listen() {
  const int listener =
      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  listen(listener, SOMAXCONN);
  return listener;
}

int PortOf(int listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

grpc::ServerGenericBidiReactor* PeerEcho::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const auto peer = context->auth_context();
  return new EchoCall(absl::StrCat(absl::StrJoin(PeerNames(*peer), "\n"),
                                   "\n\n", PeerCertificates(*peer)));
}

TlsServer::TlsServer(TlsCredentials& credentials) {
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service_);
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      credentials.MakeForPort());
  server_ = builder.BuildAndStart();
  listener_ = Listen();
  port_ = PortOf(listener_);
  thread_ = std::thread([this] { Accept(); });
}

TlsServer::~TlsServer() {
  stopping_ = true;
  thread_.join();
  close(listener_);
  server_->Shutdown(std::chrono::system_clock::now());
}

void TlsServer::HandOver(int descriptor) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      connection;
  connection.fd = descriptor;
  acceptor_->HandleNewConnection(&connection);
}

void TlsServer::Accept() {
  while (!stopping_) {
    pollfd waiting = {listener_, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) continue;
    const int descriptor =
        accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) HandOver(descriptor);
  }
}

}  // namespace dedupe::testing
