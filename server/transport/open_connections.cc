#include "server/transport/open_connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/telemetry/metrics.h"

namespace dedupe {
namespace {

std::string NameOf(const sockaddr_in& peer) {
  std::array<char, INET_ADDRSTRLEN> text = {};
  inet_ntop(AF_INET, &peer.sin_addr, text.data(), text.size());
  return absl::StrCat("ipv4:", text.data(), ":", ntohs(peer.sin_port));
}

std::string NameOf(const sockaddr_in6& peer) {
  if (IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr)) {
    sockaddr_in mapped = {};
    std::memcpy(&mapped.sin_addr, &peer.sin6_addr.s6_addr[12],
                sizeof(mapped.sin_addr));
    mapped.sin_port = peer.sin6_port;
    return NameOf(mapped);
  }
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(AF_INET6, &peer.sin6_addr, text.data(), text.size());
  const std::string scope =
      peer.sin6_scope_id == 0 ? "" : absl::StrCat("%", peer.sin6_scope_id);
  return absl::StrCat("ipv6:[", text.data(), scope,
                      "]:", ntohs(peer.sin6_port));
}

// As grpc::ServerContext::peer() names it, but for the encoding.
std::string NameOf(const SocketAddress& peer) {
  if (peer.storage.ss_family == AF_INET) {
    return NameOf(*reinterpret_cast<const sockaddr_in*>(&peer.storage));
  }
  if (peer.storage.ss_family == AF_INET6) {
    return NameOf(*reinterpret_cast<const sockaddr_in6*>(&peer.storage));
  }
  return "";
}

// Brackets are encoded in some releases of gRPC and bare in others.
std::string Decoded(const std::string& peer) {
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace

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
  // Not kept: closing resets the connection, and what the peer did not read is
  // freed at once.
  constexpr linger kReset = {.l_onoff = 1, .l_linger = 0};
  bool found = false;
  const absl::MutexLock lock(&mutex_);
  for (const auto& [number, connection] : connections_) {
    if (connection.peer != name) continue;
    const int fd = connection.duplicate.get();
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &kReset, sizeof(kReset));
    shutdown(fd, SHUT_RDWR);
    found = true;
  }
  return found;
}

int OpenConnections::size() const {
  const absl::MutexLock lock(&mutex_);
  return static_cast<int>(connections_.size());
}

}  // namespace dedupe
