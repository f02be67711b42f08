// Where the server listens: HOST:PORT or unix:PATH, resolved.
#ifndef DEDUPE_SERVER_TRANSPORT_LISTEN_ADDRESS_H_
#define DEDUPE_SERVER_TRANSPORT_LISTEN_ADDRESS_H_

#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace dedupe {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

// Immutable, and so safe to use from any thread.
class ListenAddress {
 public:
  // HOST is a name, an IPv4 address or an IPv6 address in brackets; PORT is 0
  // (the kernel picks one) to 65535; PATH has at most 107 bytes, as Linux has
  // room for no more. Asks the system's resolver, so it may block for seconds.
  // INVALID_ARGUMENT: it is neither. UNAVAILABLE: nothing is known of that
  // host, or not now. Both name the setting.
  static absl::StatusOr<ListenAddress> Resolve(const std::string& text);

  // Whether nobody outside this machine can reach it: a Unix socket, or every
  // address of the host is a loopback one.
  bool IsLocal() const;
  bool IsUnixSocket() const;

  // As it was given.
  const std::string& text() const { return text_; }
  // At least one.
  const std::vector<SocketAddress>& addresses() const { return addresses_; }

 private:
  ListenAddress(std::string text, std::vector<SocketAddress> addresses)
      : text_(std::move(text)), addresses_(std::move(addresses)) {}

  std::string text_;
  std::vector<SocketAddress> addresses_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TRANSPORT_LISTEN_ADDRESS_H_
