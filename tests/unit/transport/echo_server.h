// A gRPC server of any method, behind an Acceptor.
#ifndef DEDUPE_TESTS_UNIT_TRANSPORT_ECHO_SERVER_H_
#define DEDUPE_TESTS_UNIT_TRANSPORT_ECHO_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/transport/acceptor.h"

namespace dedupe::testing {

// Answers kPeer with the name of the peer, and every other method with what it
// was sent.
class EchoService : public grpc::CallbackGenericService {
 public:
  static constexpr char kPeer[] = "/test.Echo/Peer";
  static constexpr char kEcho[] = "/test.Echo/Echo";

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

class EchoServer {
 public:
  struct Options {
    std::string address = "127.0.0.1:0";
    int connections_max = 100;
    absl::Duration connection_age_max = absl::InfiniteDuration();
  };

  explicit EchoServer(const Options& options);
  EchoServer() : EchoServer(Options()) {}
  ~EchoServer();
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  Acceptor& acceptor() { return *acceptor_; }
  // For clients, with the port that the kernel picked.
  const std::string& address() const { return address_; }

 private:
  EchoService service_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_TRANSPORT_ECHO_SERVER_H_
