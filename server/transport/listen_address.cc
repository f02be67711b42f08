#include "server/transport/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace dedupe {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
constexpr absl::string_view kSetting =
    "--listen-address (DEDUPE_LISTEN_ADDRESS)";
// 127.0.0.0/8.
constexpr uint32_t kLoopbackNetwork = 127;

struct HostAndPort {
  std::string host;
  std::string port;
};

absl::Status Malformed(const std::string& text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(kSetting, " is \"", text, "\": ", why,
                   "; write HOST:PORT, [IPV6]:PORT or unix:PATH"));
}

bool IsPort(absl::string_view text) {
  uint32_t port = 0;
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, &port) && port <= 65535;
}

absl::StatusOr<HostAndPort> Split(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return Malformed(text, "it has no port");
  absl::string_view host = absl::string_view(text).substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (!IsPort(port)) {
    return Malformed(text, "its port is no number from 0 to 65535");
  }
  if (absl::ConsumePrefix(&host, "[")) {
    in6_addr ignored = {};
    // What follows a % names the interface of a link-local address.
    const std::string address(host.substr(0, host.find_first_of("%]")));
    if (!absl::ConsumeSuffix(&host, "]") ||
        inet_pton(AF_INET6, address.c_str(), &ignored) != 1) {
      return Malformed(text, "its brackets hold no IPv6 address");
    }
  } else if (host.find_first_of(":[]") != absl::string_view::npos) {
    return Malformed(text, "an IPv6 address stands in brackets");
  }
  // The resolver takes a * for loopback, others for every address.
  if (host.empty() || host == "*") {
    return Malformed(text,
                     "it has no host (0.0.0.0 or [::] is every address of this"
                     " machine)");
  }
  return HostAndPort{std::string(host), port};
}

absl::StatusOr<std::vector<SocketAddress>> ResolveUnix(
    const std::string& text) {
  const std::string path = text.substr(kUnixPrefix.size());
  if (path.empty()) return Malformed(text, "it has no path");
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  // One byte is for the NUL.
  if (path.size() >= sizeof(name.sun_path)) {
    return Malformed(text, "its path is longer than 107 bytes");
  }
  std::copy(path.begin(), path.end(), name.sun_path);
  SocketAddress address;
  std::memcpy(&address.storage, &name, sizeof(name));
  address.length = sizeof(name);
  return std::vector<SocketAddress>{address};
}

absl::StatusOr<std::vector<SocketAddress>> ResolveHost(
    const std::string& text) {
  const auto split = Split(text);
  if (!split.ok()) return split.status();
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(split->host.c_str(), split->port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        kSetting, " is \"", text, "\": the host is not to be found (",
        gai_strerror(error), ")"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr;
       entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    // A hosts file may name the same address twice, which would then be in use.
    const bool known = std::any_of(
        addresses.begin(), addresses.end(), [&](const SocketAddress& other) {
          return other.length == address.length &&
                 std::memcmp(&other.storage, &address.storage,
                             address.length) == 0;
        });
    if (!known) addresses.push_back(address);
  }
  return addresses;
}

bool IsLoopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in name = {};
    std::memcpy(&name, &address.storage, sizeof(name));
    return ntohl(name.sin_addr.s_addr) >> 24 == kLoopbackNetwork;
  }
  if (address.storage.ss_family != AF_INET6) return false;
  sockaddr_in6 name = {};
  std::memcpy(&name, &address.storage, sizeof(name));
  return IN6_IS_ADDR_LOOPBACK(&name.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&name.sin6_addr) &&
          name.sin6_addr.s6_addr[12] == kLoopbackNetwork);
}

}  // namespace

absl::StatusOr<ListenAddress> ListenAddress::Resolve(const std::string& text) {
  if (absl::StrContains(text, '\0')) return Malformed(text, "it has a NUL");
  auto addresses = absl::StartsWith(text, kUnixPrefix) ? ResolveUnix(text)
                                                       : ResolveHost(text);
  if (!addresses.ok()) return addresses.status();
  return ListenAddress(text, *std::move(addresses));
}

bool ListenAddress::IsLocal() const {
  return IsUnixSocket() ||
         std::all_of(addresses_.begin(), addresses_.end(), IsLoopback);
}

bool ListenAddress::IsUnixSocket() const {
  return addresses_.front().storage.ss_family == AF_UNIX;
}

}  // namespace dedupe
