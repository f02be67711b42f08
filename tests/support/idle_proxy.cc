#include "tests/support/idle_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dedupe::testing {
namespace {

// How soon it notices that it shall stop, or that a connection is idle.
constexpr int kTickMilliseconds = 20;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int NewSocket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

// What has arrived on the one, to the other; false at the end of either.
bool PassOn(int from, int to) {
  std::array<char, 65536> buffer;
  const ssize_t size = recv(from, buffer.data(), buffer.size(), 0);
  for (ssize_t sent = 0; sent < size;) {
    const ssize_t part = send(to, buffer.data() + sent,
                              static_cast<size_t>(size - sent), MSG_NOSIGNAL);
    if (part <= 0) return false;
    sent += part;
  }
  return size > 0;
}

}  // namespace

IdleProxy::IdleProxy(const std::string& upstream, absl::Duration idle_max,
                     Drop drop)
    : upstream_port_(std::stoi(upstream.substr(upstream.rfind(':') + 1))),
      idle_max_(idle_max),
      drop_(drop),
      listener_(NewSocket()) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, any, size) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, any, &size) != 0) {
    std::perror("idle proxy");
    std::exit(1);
  }
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  thread_ = std::thread([this] { Run(); });
}

IdleProxy::~IdleProxy() {
  stopping_ = true;
  thread_.join();
  close(listener_);
}

void IdleProxy::Run() {
  while (!stopping_) {
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    for (const Connection& connection : open_) {
      polled.push_back({connection.client, POLLIN, 0});
      polled.push_back({connection.server, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kTickMilliseconds);
    size_t next = 1;
    for (auto it = open_.begin(); it != open_.end(); next += 2) {
      const bool goes_on =
          Relay(*it, polled[next].revents != 0, polled[next + 1].revents != 0);
      if (!goes_on) End(*it);
      it = goes_on ? std::next(it) : open_.erase(it);
    }
    if (polled[0].revents != 0) Accept();
  }
  for (const Connection& connection : open_) End(connection);
}

void IdleProxy::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  ++connections_;
  const Connection connection = {client, NewSocket(), absl::Now()};
  const sockaddr_in upstream = Loopback(upstream_port_);
  if (connect(connection.server, reinterpret_cast<const sockaddr*>(&upstream),
              sizeof(upstream)) != 0) {
    return End(connection);
  }
  open_.push_back(connection);
}

bool IdleProxy::Relay(Connection& connection, bool from_client,
                      bool from_server) {
  if (from_client || from_server) connection.last_used = absl::Now();
  if (from_client && !PassOn(connection.client, connection.server)) {
    return false;
  }
  if (from_server && !PassOn(connection.server, connection.client)) {
    return false;
  }
  if (absl::Now() - connection.last_used < idle_max_) return true;
  ++dropped_;
  return false;
}

void IdleProxy::End(const Connection& connection) const {
  // Closed with that, a connection is reset.
  const linger at_once = {.l_onoff = drop_ == Drop::kReset, .l_linger = 0};
  for (const int fd : {connection.client, connection.server}) {
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
  }
}

}  // namespace dedupe::testing
