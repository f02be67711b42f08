#include "server/transport/open_connections.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "server/telemetry/metrics.h"
#include "server/transport/peer_name.h"

namespace dedupe {
OpenConnections::~OpenConnections() {
  const absl::MutexLock lock(&mutex_);
  Count(Metric::kConnections, -static_cast<int64_t>(connections_.size()));
}

int OpenConnections::Add(int fd, const SocketAddress& peer) {
  Connection connection = {Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0)),
                           NameOf(peer)};
  if (!connection.duplicate.valid()) return errno;
  const int duplicate = connection.duplicate.get();
  const auto number = static_cast<uint64_t>(duplicate);
  epoll_event event = {};
  // EPOLLHUP comes unasked, and nothing else is wanted: neither data nor a peer
  // that has merely finished sending wakes anybody up. Edges, because an error
  // without a hang-up would be reported for ever.
  event.events = EPOLLET;
  event.data.u64 = number;
  const absl::MutexLock lock(&mutex_);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, duplicate, &event) != 0) return errno;
  connections_.emplace(number, std::move(connection));
  Count(Metric::kConnections);
  return 0;
}

void OpenConnections::Remove(uint64_t number) {
  const absl::MutexLock lock(&mutex_);
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  // To close it is not enough: an entry lives as long as any descriptor of the
  // socket, and gRPC's may not be closed yet.
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, found->second.duplicate.get(), nullptr);
  connections_.erase(found);
  Count(Metric::kConnections, -1);
}

bool OpenConnections::Cut(const std::string& peer) {
  const std::string name = Decoded(peer);
  if (name.empty()) return false;
  // Of a TCP socket this ends the connection at once, both ways: what the peer
  // did not read is freed, and what it sent and nobody has read yet, which may
  // be tens of thousands of calls, never will be.
  constexpr sockaddr kNobody = {.sa_family = AF_UNSPEC, .sa_data = {}};
  bool found = false;
  const absl::MutexLock lock(&mutex_);
  for (const auto& [number, connection] : connections_) {
    if (connection.peer != name) continue;
    const int fd = connection.duplicate.get();
    connect(fd, &kNobody, sizeof(kNobody));
    found = true;
  }
  return found;
}

int OpenConnections::size() const {
  const absl::MutexLock lock(&mutex_);
  return static_cast<int>(connections_.size());
}

}  // namespace dedupe
