// The sockets of one address: bound, listening, and closed without a trace.
#ifndef DEDUPE_SERVER_TRANSPORT_LISTENING_SOCKETS_H_
#define DEDUPE_SERVER_TRANSPORT_LISTENING_SOCKETS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/transport/descriptor.h"
#include "server/transport/listen_address.h"

namespace dedupe {

// Not thread-safe.
class ListeningSockets {
 public:
  // One socket, non-blocking, for every address of the host. An IPv6 address
  // that this machine cannot have is left out, unless it is the only one: hosts
  // files name ::1 where IPv6 is off. Accepted sockets inherit TCP_NODELAY and
  // TCP_USER_TIMEOUT from these.
  //
  // A Unix socket's file that a dead server left is replaced; one where
  // somebody answers, and a file of another kind, stay. Its rights are those of
  // the umask. Two servers that start
  // at the same moment on one dead server's file may both believe to have it:
  // the second one does.
  //
  // UNAVAILABLE: it is in use or not of this machine; the message names the
  // setting.
  static absl::StatusOr<std::unique_ptr<ListeningSockets>> Open(
      const ListenAddress& address);
  ~ListeningSockets() { Close(); }
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;

  const std::vector<Descriptor>& sockets() const { return sockets_; }
  // What the kernel picked if it was asked to; 0 for a Unix socket.
  int port() const { return port_; }

  // Whoever is not yet accepted is refused. Removes the file of a Unix socket
  // if it is still ours. Idempotent.
  void Close();

 private:
  ListeningSockets() = default;

  absl::Status OpenUnix(const ListenAddress& address);
  absl::Status OpenTcp(const ListenAddress& address);

  std::vector<Descriptor> sockets_;
  int port_ = 0;
  // Of a Unix socket: its path, and the file that bind() made there.
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TRANSPORT_LISTENING_SOCKETS_H_
