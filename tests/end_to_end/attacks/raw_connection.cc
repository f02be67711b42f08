#include "tests/end_to_end/attacks/raw_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"

namespace dedupe::testing {
namespace {

// False after that time.
bool AwaitEvent(int socket, short event, absl::Time until) {
  pollfd waited = {socket, event, 0};
  const int64_t left = absl::ToInt64Milliseconds(until - absl::Now());
  return left > 0 && poll(&waited, 1, static_cast<int>(left)) > 0;
}

}  // namespace

RawConnection::RawConnection(const std::string& address, const Options& options)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  int port = 0;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) {
    to.sin_port = htons(static_cast<uint16_t>(port));
  }
  if (options.receive_buffer > 0) {
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &options.receive_buffer,
               sizeof(options.receive_buffer));
  }
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  inet_pton(AF_INET, options.from.c_str(), &from.sin_addr);
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from)) !=
          0 ||
      connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) !=
          0) {
    socket_.Close();
    return;
  }
  fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
}

bool RawConnection::Send(absl::string_view bytes, absl::Duration limit) {
  const absl::Time until = absl::Now() + limit;
  while (!closed()) {
    bytes.remove_prefix(SendSome(bytes));
    if (bytes.empty()) return true;
    if (!closed() && !AwaitEvent(socket_.get(), POLLOUT, until)) return false;
  }
  return false;
}

size_t RawConnection::SendSome(absl::string_view bytes) {
  if (closed()) return 0;
  const ssize_t sent =
      send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno != EAGAIN && errno != EINTR) socket_.Close();
  return 0;
}

std::string RawConnection::Take() {
  std::string taken;
  std::array<char, 65536> buffer = {};
  while (!closed()) {
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) {
      taken.append(buffer.data(), static_cast<size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else if (count < 0 && errno == EAGAIN) {
      break;
    } else {
      socket_.Close();
    }
  }
  return taken;
}

bool RawConnection::AwaitClosed(absl::Duration limit) {
  const absl::Time until = absl::Now() + limit;
  while (!closed()) {
    if (!AwaitEvent(socket_.get(), POLLIN, until)) return false;
    Take();
  }
  return true;
}

bool RawConnection::HasHungUp() const {
  if (closed()) return true;
  pollfd state = {socket_.get(), POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0 &&
         (state.revents & (POLLHUP | POLLERR | POLLRDHUP)) != 0;
}

}  // namespace dedupe::testing
