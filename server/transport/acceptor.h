// The listener. gRPC 1.51's own stops for good at the first accept() that finds
// no descriptor left; this one goes on, and counts and bounds its connections.
#ifndef DEDUPE_SERVER_TRANSPORT_ACCEPTOR_H_
#define DEDUPE_SERVER_TRANSPORT_ACCEPTOR_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/transport/descriptor.h"
#include "server/transport/kept_out.h"
#include "server/transport/listen_address.h"
#include "server/transport/listening_sockets.h"
#include "server/transport/open_connections.h"

namespace dedupe {

// Takes connections in, TCP and Unix alike, and hands them to a gRPC server.
// In this order: Open, AddTo, BuildAndStart of the builder, Start, Stop,
// Shutdown of the server, and the destructor. A connection costs two
// descriptors (see OpenConnections), and the acceptor itself four or more.
//
// Beyond connections_max a connection is accepted and closed at once: a caller
// that fails fast can try elsewhere, one in the backlog only waits. The same is
// done, with a descriptor held in reserve, when the process or the system has
// none left. Whatever accept() says, accepting goes on. Both are counted
// (kConnectionsRefused, kAcceptFailures) and logged at most once per second.
//
// Peers on a Unix socket have no names: gRPC calls all of them "unix:", and
// none can be cut.
class Acceptor {
 public:
  struct Options {
    ListenAddress address;
    // At least 1.
    int connections_max = 0;
  };

  // Binds and listens at once, so that an address that is not to be had is
  // known before anything else starts; whoever connects waits in the backlog
  // until Start. UNAVAILABLE: as for ListeningSockets. RESOURCE_EXHAUSTED: no
  // descriptors are left.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Open(const Options& options);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Once, before BuildAndStart.
  void AddTo(grpc::ServerBuilder& builder,
             std::shared_ptr<grpc::ServerCredentials> credentials);
  // Once, after BuildAndStart.
  void Start();
  // No new connections from here on; those that are open stay. Before the
  // server's Shutdown, because gRPC leaks what it is handed after it.
  // Idempotent, from any thread.
  void Stop();

  // Resets the connection of that peer, named as ServerContext::peer() does,
  // and refuses its address new ones for so long. False if it has none. From
  // any thread.
  bool Cut(const std::string& peer,
           absl::Duration keep_out = absl::ZeroDuration());
  // From any thread.
  int connections() const { return connections_.size(); }
  // What the kernel picked for port 0; 0 for a Unix socket.
  int port() const { return port_; }

 private:
  // What happens too often to log each time. Used by the thread alone.
  struct Occurrence {
    int64_t unlogged = 0;
    absl::Time quiet_until = absl::InfinitePast();
  };
  enum class Outcome { kTaken, kNobodyWaits, kFailed };

  Acceptor(const Options& options, std::unique_ptr<ListeningSockets> listening,
           Descriptor epoll, Descriptor wake, Descriptor reserve);

  bool Watch(int fd, uint64_t number) const;
  void Run();
  void AcceptWaiting() ABSL_LOCKS_EXCLUDED(accept_mutex_);
  Outcome AcceptOne(int listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(accept_mutex_);
  Outcome TakeIn(int listener, Descriptor connection, const SocketAddress& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accept_mutex_);
  // Both count, and log.
  Outcome Fail(int listener, int error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accept_mutex_);
  void Refused();
  void RefuseWaiting(int listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(accept_mutex_);

  const int connections_max_;
  const int port_;
  const Descriptor epoll_;
  // An eventfd that becomes readable when the thread shall end.
  const Descriptor wake_;
  // Open whenever it can be: what accept() may use when nothing else is left.
  Descriptor reserve_;
  OpenConnections connections_;
  KeptOut kept_out_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  // Held while connections are handed to gRPC, so that Stop can wait for it.
  absl::Mutex accept_mutex_;
  const std::unique_ptr<ListeningSockets> listening_
      ABSL_PT_GUARDED_BY(accept_mutex_);
  Occurrence refused_;
  Occurrence failed_;
  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TRANSPORT_ACCEPTOR_H_
