#include "tests/end_to_end/client/bad_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dedupe::testing {

BadPeer::BadPeer(std::string bytes, After after)
    : bytes_(std::move(bytes)),
      after_(after),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) !=
          0 ||
      listen(listener_, 16) != 0) {
    std::perror("listening on loopback");
    std::abort();
  }
  socklen_t size = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  thread_ = std::thread([this] { Serve(); });
}

BadPeer::~BadPeer() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

void BadPeer::Serve() {
  std::vector<int> open;
  while (true) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) break;
    ++connections_;
    send(connection, bytes_.data(), bytes_.size(), MSG_NOSIGNAL);
    if (after_ == After::kClose) {
      close(connection);
    } else {
      open.push_back(connection);
    }
  }
  for (const int connection : open) close(connection);
}

}  // namespace dedupe::testing
