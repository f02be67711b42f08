// The connections that gRPC serves: how many there are, and a way to end one.
#ifndef DEDUPE_SERVER_TRANSPORT_OPEN_CONNECTIONS_H_
#define DEDUPE_SERVER_TRANSPORT_OPEN_CONNECTIONS_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/transport/descriptor.h"
#include "server/transport/listen_address.h"

namespace dedupe {

// gRPC owns a connection's descriptor and tells nobody when it closes it. It
// shuts the socket down first, always, so a duplicate of the descriptor sees
// EPOLLHUP: a connection costs two descriptors while it is open. Between gRPC's
// close() and ours its poller can see one more event of that socket, which it
// takes for a spurious one. Keeps the gauge kConnections. Thread-safe.
class OpenConnections {
 public:
  // The events of the connections go to this epoll descriptor, which outlives
  // the object, with the number that Remove() takes as their data.
  explicit OpenConnections(int epoll_fd) : epoll_fd_(epoll_fd) {}
  ~OpenConnections();
  OpenConnections(const OpenConnections&) = delete;
  OpenConnections& operator=(const OpenConnections&) = delete;

  // Duplicates the descriptor. 0, or the errno of what failed.
  int Add(int fd, const SocketAddress& peer);
  // After an EPOLLHUP.
  void Remove(uint64_t number);
  // False if no such peer has a connection.
  bool Cut(const std::string& peer);
  int size() const;

 private:
  struct Connection {
    Descriptor duplicate;
    // Empty for a Unix socket, whose peers have no names.
    std::string peer;
  };

  const int epoll_fd_;
  mutable absl::Mutex mutex_;
  // By the number of the duplicate.
  absl::flat_hash_map<uint64_t, Connection> connections_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TRANSPORT_OPEN_CONNECTIONS_H_
