#include "server/transport/acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"
#include "server/transport/peer_name.h"

namespace dedupe {
namespace {

// Of events that are no connection's.
constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kListening = kEnd - 1;
// Connections of one socket taken in before those that ended are looked at:
// these make room.
constexpr int kAcceptsPerTurn = 64;
// After a failure that would otherwise repeat at once, as long as it lasts.
constexpr int kPauseMilliseconds = 10;
// Some 1,600 each second: a crowd learns soon that there is no room, and a
// shortage that is over within a pause costs few callers their attempt.
constexpr int kRefusalsPerPause = 16;
constexpr absl::Duration kLogInterval = absl::Seconds(1);

Descriptor NewReserve() {
  return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS ||
         error == ENOMEM;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Open(
    const Options& options) {
  auto listening = ListeningSockets::Open(options.address);
  if (!listening.ok()) return listening.status();
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Descriptor reserve = NewReserve();
  if (!epoll.valid() || !wake.valid() || !reserve.valid()) {
    return absl::ResourceExhaustedError(
        "cannot listen: too few file descriptors are left");
  }
  auto acceptor = absl::WrapUnique(
      new Acceptor(options, *std::move(listening), std::move(epoll),
                   std::move(wake), std::move(reserve)));
  bool watched = acceptor->Watch(acceptor->wake_.get(), kEnd);
  const absl::MutexLock lock(&acceptor->accept_mutex_);
  for (const Descriptor& socket : acceptor->listening_->sockets()) {
    watched = watched && acceptor->Watch(socket.get(), kListening);
  }
  if (!watched) {
    return absl::ResourceExhaustedError("cannot listen: epoll has no room");
  }
  return acceptor;
}

Acceptor::Acceptor(const Options& options,
                   std::unique_ptr<ListeningSockets> listening,
                   Descriptor epoll, Descriptor wake, Descriptor reserve)
    : connections_max_(options.connections_max),
      port_(listening->port()),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      reserve_(std::move(reserve)),
      connections_(epoll_.get()),
      listening_(std::move(listening)) {}

Acceptor::~Acceptor() {
  Stop();
  if (!thread_.joinable()) return;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Acceptor::AddTo(grpc::ServerBuilder& builder,
                     std::shared_ptr<grpc::ServerCredentials> credentials) {
  server_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  const absl::MutexLock lock(&accept_mutex_);
  // Closing them takes them out of epoll: nobody else has these sockets.
  listening_->Close();
}

bool Acceptor::Cut(const std::string& peer, absl::Duration keep_out) {
  // Before it is cut, so that it is not back sooner.
  kept_out_.Add(HostOf(Decoded(peer)), absl::Now() + keep_out);
  return connections_.Cut(peer);
}

bool Acceptor::Watch(int fd, uint64_t number) const {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = number;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Acceptor::Run() {
  std::array<epoll_event, 256> events = {};
  while (true) {
    const int ready = epoll_wait(epoll_.get(), events.data(),
                                 static_cast<int>(events.size()), -1);
    bool someone_waits = false;
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kEnd) return;
      if (event.data.u64 == kListening) {
        someone_waits = true;
      } else if ((event.events & EPOLLHUP) != 0) {
        connections_.Remove(event.data.u64);
      }
    }
    if (someone_waits) AcceptWaiting();
  }
}

void Acceptor::AcceptWaiting() {
  bool failed = false;
  {
    const absl::MutexLock lock(&accept_mutex_);
    for (const Descriptor& socket : listening_->sockets()) {
      for (int i = 0; i < kAcceptsPerTurn; ++i) {
        const Outcome outcome = AcceptOne(socket.get());
        failed = failed || outcome == Outcome::kFailed;
        if (outcome != Outcome::kTaken) break;
      }
    }
  }
  if (!failed) return;
  pollfd end = {.fd = wake_.get(), .events = POLLIN, .revents = 0};
  poll(&end, 1, kPauseMilliseconds);
}

Acceptor::Outcome Acceptor::AcceptOne(int listener) {
  // Another thread may have been quicker to use the descriptor just freed.
  if (!reserve_.valid()) reserve_ = NewReserve();
  SocketAddress peer;
  peer.length = sizeof(peer.storage);
  Descriptor connection(accept4(listener,
                                reinterpret_cast<sockaddr*>(&peer.storage),
                                &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!connection.valid()) {
    const int error = errno;
    if (error == EAGAIN) return Outcome::kNobodyWaits;
    if (error == EINTR || error == ECONNABORTED) return Outcome::kTaken;
    return Fail(listener, error);
  }
  return TakeIn(listener, std::move(connection), peer);
}

Acceptor::Outcome Acceptor::TakeIn(int listener, Descriptor connection,
                                   const SocketAddress& peer) {
  if (connections_.size() >= connections_max_ ||
      kept_out_.Contains(HostOf(NameOf(peer)), absl::Now())) {
    Refused();
    return Outcome::kTaken;
  }
  // Gone while it waited. gRPC would log an error for each of these.
  SocketAddress ignored;
  ignored.length = sizeof(ignored.storage);
  if (getpeername(connection.get(),
                  reinterpret_cast<sockaddr*>(&ignored.storage),
                  &ignored.length) != 0) {
    return Outcome::kTaken;
  }
  if (const int error = connections_.Add(connection.get(), peer); error != 0) {
    Refused();
    return Fail(listener, error);
  }
  Count(Metric::kConnectionsAccepted);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      parameters;
  parameters.listener_fd = listener;
  parameters.fd = connection.Release();
  server_->HandleNewConnection(&parameters);
  return Outcome::kTaken;
}

Acceptor::Outcome Acceptor::Fail(int listener, int error) {
  Count(Metric::kAcceptFailures);
  ++failed_.unlogged;
  if (absl::Now() >= failed_.quiet_until) {
    Log(Severity::kError, "accept_failed",
        {{"count", std::exchange(failed_.unlogged, 0)},
         {"error", std::generic_category().message(error)},
         {"open", connections_.size()}});
    failed_.quiet_until = absl::Now() + kLogInterval;
  }
  if (IsShortage(error)) RefuseWaiting(listener);
  return Outcome::kFailed;
}

void Acceptor::RefuseWaiting(int listener) {
  reserve_.Close();
  for (int i = 0; i < kRefusalsPerPause; ++i) {
    const Descriptor refused(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!refused.valid()) break;
    Refused();
  }
  reserve_ = NewReserve();
}

void Acceptor::Refused() {
  Count(Metric::kConnectionsRefused);
  ++refused_.unlogged;
  if (absl::Now() < refused_.quiet_until) return;
  Log(Severity::kWarning, "connections_refused",
      {{"count", std::exchange(refused_.unlogged, 0)},
       {"open", connections_.size()},
       {"connections_max", connections_max_}});
  refused_.quiet_until = absl::Now() + kLogInterval;
}

}  // namespace dedupe
