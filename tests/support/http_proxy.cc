#include "tests/support/http_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace dedupe::testing {
namespace {

constexpr size_t kMessageBytesMax = size_t{1} << 20;
constexpr char kEndOfHead[] = "\r\n\r\n";

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Bytes of the body that the head announces; nothing if we cannot know.
std::optional<size_t> BodyBytes(const std::string& head) {
  if (!HeaderValues(head, "Transfer-Encoding").empty()) return std::nullopt;
  const std::vector<std::string> lengths = HeaderValues(head, "Content-Length");
  if (lengths.empty()) return 0;
  uint64_t length = 0;
  if (!absl::SimpleAtoi(lengths.front(), &length)) return std::nullopt;
  return length;
}

// One message, which begins with what the last read left in `buffer`. Nothing
// if the peer ends or breaks it off.
std::optional<std::string> ReadMessage(int socket, std::string& buffer) {
  std::optional<size_t> length;
  while (true) {
    const size_t end_of_head = buffer.find(kEndOfHead);
    if (!length.has_value() && end_of_head != std::string::npos) {
      const size_t head = end_of_head + sizeof(kEndOfHead) - 1;
      const std::optional<size_t> body = BodyBytes(buffer.substr(0, head));
      if (!body.has_value()) return std::nullopt;
      length = head + *body;
    }
    if (length.has_value() && buffer.size() >= *length) {
      std::string message = buffer.substr(0, *length);
      buffer.erase(0, *length);
      return message;
    }
    char bytes[16 * 1024];
    const ssize_t count = recv(socket, bytes, sizeof(bytes), 0);
    if (count <= 0 || buffer.size() > kMessageBytesMax) return std::nullopt;
    buffer.append(bytes, static_cast<size_t>(count));
  }
}

bool SendAll(int socket, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Closing it will then send RST instead of FIN.
void MarkForReset(int socket) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void SendWithoutDelay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

struct HttpProxy::Connection {
  // Closed by the relaying thread, under the mutex: whoever holds that may use
  // them.
  int client = -1;
  int upstream = -1;
  bool finished = false;
  // The relaying thread's alone: bytes that came behind the last request.
  std::string buffer;
  std::thread thread;
};

HttpProxy::HttpProxy(int upstream_port, Options options)
    : options_(options), upstream_port_(upstream_port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener_, SOMAXCONN) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) !=
          0) {
    std::perror("proxy");
    std::exit(1);
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

HttpProxy::~HttpProxy() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    // Wakes whoever reads, writes or accepts.
    shutdown(listener_, SHUT_RDWR);
    for (const auto& connection : connections_) {
      if (connection->client >= 0) shutdown(connection->client, SHUT_RDWR);
      if (connection->upstream >= 0) shutdown(connection->upstream, SHUT_RDWR);
    }
  }
  acceptor_.join();
  for (const auto& connection : connections_) connection->thread.join();
  close(listener_);
}

void HttpProxy::SetUpstream(int port) {
  absl::MutexLock lock(&mutex_);
  upstream_port_ = port;
}

void HttpProxy::ForNext(int count, ReplyFate fate) {
  absl::MutexLock lock(&mutex_);
  fates_.insert(fates_.end(), static_cast<size_t>(count), fate);
}

void HttpProxy::ReleaseHeld() {
  absl::MutexLock lock(&mutex_);
  ++releases_;
}

std::vector<std::string> HttpProxy::requests() const {
  absl::MutexLock lock(&mutex_);
  return requests_;
}

size_t HttpProxy::answered() const {
  absl::MutexLock lock(&mutex_);
  return answered_;
}

bool HttpProxy::WaitForRequests(size_t count, absl::Duration limit) const {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return requests_.size() >= count;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), limit);
}

bool HttpProxy::WaitForAnswered(size_t count, absl::Duration limit) const {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return answered_ >= count;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), limit);
}

void HttpProxy::Accept() {
  while (AwaitRoom()) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    absl::MutexLock lock(&mutex_);
    if (stopping_) {
      if (client >= 0) close(client);
      return;
    }
    if (client < 0) continue;
    SendWithoutDelay(client);
    connections_.push_back(std::make_unique<Connection>());
    Connection& connection = *connections_.back();
    connection.client = client;
    ++running_;
    connection.thread = std::thread([this, &connection] { Relay(connection); });
  }
}

bool HttpProxy::AwaitRoom() {
  absl::MutexLock lock(&mutex_);
  const auto has_room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || running_ < options_.connections_max;
  };
  mutex_.Await(absl::Condition(&has_room));
  // Their threads have nothing left to do that needs the mutex.
  connections_.remove_if([](const std::unique_ptr<Connection>& connection) {
    if (connection->finished) connection->thread.join();
    return connection->finished;
  });
  return !stopping_;
}

void HttpProxy::Relay(Connection& connection) {
  while (Exchange(connection)) {
  }
  absl::MutexLock lock(&mutex_);
  close(connection.client);
  connection.client = -1;
  connection.finished = true;
  --running_;
}

bool HttpProxy::Exchange(Connection& connection) {
  const std::optional<std::string> request =
      ReadMessage(connection.client, connection.buffer);
  if (!request.has_value()) return false;
  const ReplyFate fate = Admit(*request);
  const std::optional<std::string> reply = Ask(connection, *request);
  if (fate == ReplyFate::kHold) AwaitRelease();
  if (!reply.has_value() || fate == ReplyFate::kReset) {
    MarkForReset(connection.client);
    return false;
  }
  return fate != ReplyFate::kClose && SendAll(connection.client, *reply);
}

ReplyFate HttpProxy::Admit(const std::string& request) {
  absl::MutexLock lock(&mutex_);
  requests_.push_back(request);
  if (fates_.empty()) return ReplyFate::kPass;
  const ReplyFate fate = fates_.front();
  fates_.pop_front();
  return fate;
}

std::optional<std::string> HttpProxy::Ask(Connection& connection,
                                          const std::string& request) {
  const int upstream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SendWithoutDelay(upstream);
  sockaddr_in address;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) {
      close(upstream);
      return std::nullopt;
    }
    connection.upstream = upstream;
    address = Loopback(upstream_port_);
  }
  std::optional<std::string> reply;
  std::string buffer;
  if (connect(upstream, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0 &&
      SendAll(upstream, request)) {
    reply = ReadMessage(upstream, buffer);
  }
  absl::MutexLock lock(&mutex_);
  close(upstream);
  connection.upstream = -1;
  if (reply.has_value()) ++answered_;
  return reply;
}

void HttpProxy::AwaitRelease() {
  absl::MutexLock lock(&mutex_);
  const int seen = releases_;
  const auto released = [this, seen]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || releases_ > seen;
  };
  mutex_.Await(absl::Condition(&released));
}

std::vector<std::string> HeaderValues(const std::string& request,
                                      absl::string_view name) {
  const std::string head = request.substr(0, request.find(kEndOfHead));
  std::vector<std::string> values;
  for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::EqualsIgnoreCase(parts.first, name)) {
      values.emplace_back(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return values;
}

}  // namespace dedupe::testing
