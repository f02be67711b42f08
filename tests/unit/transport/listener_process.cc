// A gRPC server that has so many descriptors and no more.
//   listener_process DESCRIPTORS CONNECTIONS_MAX  behind an Acceptor
//   listener_process DESCRIPTORS                  behind gRPC's own listener
// Says "listening on PORT." and serves until SIGTERM.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tests/unit/transport/echo_server.h"

namespace {

using ::dedupe::testing::EchoServer;
using ::dedupe::testing::EchoService;

void ServeUntilTold(int port) {
  std::printf("listening on %d.\n", port);
  std::fflush(stdout);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  int signal = 0;
  sigwait(&signals, &signal);
}

void ServeBehindGrpc() {
  EchoService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  const auto server = builder.BuildAndStart();
  ServeUntilTold(port);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return EXIT_FAILURE;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto descriptors = static_cast<rlim_t>(std::atoi(argv[1]));
  const rlimit limit = {.rlim_cur = descriptors, .rlim_max = descriptors};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return EXIT_FAILURE;
  if (argc == 2) {
    ServeBehindGrpc();
  } else {
    EchoServer server({.connections_max = std::atoi(argv[2])});
    ServeUntilTold(server.acceptor().port());
  }
  return EXIT_SUCCESS;
}
