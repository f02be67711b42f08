#include "server/transport/listening_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

// How long what was sent may stay unacknowledged, or a peer's window closed:
// what gRPC's own listener sets on its connections.
constexpr unsigned int kUserTimeoutMilliseconds = 20'000;

absl::Status Unavailable(const ListenAddress& address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on \"", address.text(), "\": ", why,
                   "; set --listen-address (DEDUPE_LISTEN_ADDRESS)"));
}

absl::Status Unavailable(const ListenAddress& address, int error) {
  if (error == EADDRINUSE) return Unavailable(address, "it is in use");
  if (error == EADDRNOTAVAIL) {
    return Unavailable(address, "it is not an address of this machine");
  }
  return Unavailable(address, std::generic_category().message(error));
}

Descriptor NewSocket(int family) {
  return Descriptor(
      socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool SetOption(const Descriptor& descriptor, int level, int name, int value) {
  return setsockopt(descriptor.get(), level, name, &value, sizeof(value)) == 0;
}

// The errno of what failed; 0: it listens.
int Listen(const Descriptor& descriptor, const SocketAddress& address) {
  if (bind(descriptor.get(), address.get(), address.length) != 0 ||
      listen(descriptor.get(), SOMAXCONN) != 0) {
    return errno;
  }
  return 0;
}

int SetTcpOptions(const Descriptor& descriptor, int family) {
  // Without it a restart would wait for the last connections' TIME_WAIT.
  const bool set = SetOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) &&
                   SetOption(descriptor, IPPROTO_TCP, TCP_NODELAY, 1) &&
                   SetOption(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT,
                             kUserTimeoutMilliseconds) &&
                   // [::] is then every address of both kinds, whatever the
                   // system's default is.
                   (family != AF_INET6 ||
                    SetOption(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 0));
  return set ? 0 : errno;
}

// sin_port and sin6_port have the same place.
in_port_t* PortOf(SocketAddress& address) {
  return &reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port;
}

int BoundPort(const Descriptor& descriptor) {
  SocketAddress bound;
  bound.length = sizeof(bound.storage);
  getsockname(descriptor.get(), reinterpret_cast<sockaddr*>(&bound.storage),
              &bound.length);
  return ntohs(*PortOf(bound));
}

bool MachineHasNot(const SocketAddress& address, int error) {
  return address.storage.ss_family == AF_INET6 &&
         (error == EAFNOSUPPORT || error == EADDRNOTAVAIL);
}

// Removes the file of a socket on which nobody listens.
absl::Status MakeWay(const ListenAddress& address, const std::string& path) {
  struct stat file = {};
  if (lstat(path.c_str(), &file) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Unavailable(address, errno);
  }
  if (!S_ISSOCK(file.st_mode)) {
    return Unavailable(address, "a file that is no socket is there");
  }
  const Descriptor probe = NewSocket(AF_UNIX);
  const SocketAddress& name = address.addresses().front();
  if (connect(probe.get(), name.get(), name.length) == 0 ||
      errno != ECONNREFUSED) {
    return Unavailable(address, EADDRINUSE);
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListeningSockets>> ListeningSockets::Open(
    const ListenAddress& address) {
  auto opened = absl::WrapUnique(new ListeningSockets);
  const absl::Status status = address.IsUnixSocket() ? opened->OpenUnix(address)
                                                     : opened->OpenTcp(address);
  if (!status.ok()) return status;
  return opened;
}

absl::Status ListeningSockets::OpenUnix(const ListenAddress& address) {
  const SocketAddress& name = address.addresses().front();
  const std::string path =
      reinterpret_cast<const sockaddr_un*>(&name.storage)->sun_path;
  if (absl::Status status = MakeWay(address, path); !status.ok()) {
    return status;
  }
  Descriptor descriptor = NewSocket(AF_UNIX);
  if (!descriptor.valid()) return Unavailable(address, errno);
  if (const int error = Listen(descriptor, name); error != 0) {
    return Unavailable(address, error);
  }
  struct stat file = {};
  if (lstat(path.c_str(), &file) == 0) {
    path_ = path;
    device_ = file.st_dev;
    inode_ = file.st_ino;
  }
  sockets_.push_back(std::move(descriptor));
  return absl::OkStatus();
}

absl::Status ListeningSockets::OpenTcp(const ListenAddress& address) {
  int last_error = 0;
  for (SocketAddress name : address.addresses()) {
    const int family = name.storage.ss_family;
    Descriptor descriptor = NewSocket(family);
    int error = descriptor.valid() ? SetTcpOptions(descriptor, family) : errno;
    // All of them share the port that the kernel picked for the first.
    if (port_ != 0) *PortOf(name) = htons(static_cast<uint16_t>(port_));
    if (error == 0) error = Listen(descriptor, name);
    if (error == 0) {
      port_ = BoundPort(descriptor);
      sockets_.push_back(std::move(descriptor));
    } else if (MachineHasNot(name, error)) {
      Log(Severity::kInfo, "listen_address_left_out",
          {{"address", address.text()},
           {"error", std::generic_category().message(error)}});
      last_error = error;
    } else {
      return Unavailable(address, error);
    }
  }
  return sockets_.empty() ? Unavailable(address, last_error) : absl::OkStatus();
}

void ListeningSockets::Close() {
  struct stat file = {};
  // Before the socket is closed, so that nobody finds a file that answers not.
  if (!path_.empty() && lstat(path_.c_str(), &file) == 0 &&
      file.st_dev == device_ && file.st_ino == inode_) {
    unlink(path_.c_str());
  }
  path_.clear();
  sockets_.clear();
}

}  // namespace dedupe
