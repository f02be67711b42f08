// Peers that speak TCP and no gRPC, and what the process has open.
#ifndef DEDUPE_TESTS_UNIT_TRANSPORT_RAW_PEER_H_
#define DEDUPE_TESTS_UNIT_TRANSPORT_RAW_PEER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/transport/descriptor.h"

namespace dedupe::testing {

// Connected, or about to be, to that port of 127.0.0.1. Does not block.
inline Descriptor ConnectRaw(int port) {
  Descriptor peer(
      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // EINPROGRESS is what it says here, and a refusal shows when reading.
  static_cast<void>(connect(
      peer.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)));
  return peer;
}

inline int LocalPort(const Descriptor& peer) {
  sockaddr_in name = {};
  socklen_t length = sizeof(name);
  getsockname(peer.get(), reinterpret_cast<sockaddr*>(&name), &length);
  return ntohs(name.sin_port);
}

// Whether the other side closes it, or has, within that time; what it sends is
// thrown away.
inline bool ClosedWithin(const Descriptor& peer, absl::Duration limit) {
  const absl::Time until = absl::Now() + limit;
  do {
    pollfd wanted = {.fd = peer.get(), .events = POLLIN, .revents = 0};
    poll(&wanted, 1,
         static_cast<int>(absl::ToInt64Milliseconds(until - absl::Now())) + 1);
    char byte = 0;
    if (wanted.revents != 0 && recv(peer.get(), &byte, 1, 0) <= 0) return true;
  } while (absl::Now() < until);
  return false;
}

inline bool Becomes(const std::function<bool()>& condition,
                    absl::Duration limit = absl::Seconds(10)) {
  const absl::Time until = absl::Now() + limit;
  while (!condition()) {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

inline int OpenDescriptors() {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                    std::filesystem::directory_iterator()));
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_TRANSPORT_RAW_PEER_H_
