#include "server/transport/peer_name.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

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

}  // namespace

std::string NameOf(const SocketAddress& peer) {
  if (peer.storage.ss_family == AF_INET) {
    return NameOf(*reinterpret_cast<const sockaddr_in*>(&peer.storage));
  }
  if (peer.storage.ss_family == AF_INET6) {
    return NameOf(*reinterpret_cast<const sockaddr_in6*>(&peer.storage));
  }
  return "";
}

std::string Decoded(const std::string& peer) {
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

std::string HostOf(const std::string& peer) {
  return peer.substr(0, peer.rfind(':'));
}

}  // namespace dedupe
