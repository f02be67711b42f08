#include "server/app/entrance.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "server/app/grpc_server.h"
#include "server/service/await.h"
#include "server/transport/descriptor.h"

namespace dedupe {
namespace {

using std::chrono::steady_clock;

// For one reading of the list of principals, and for one page of counting.
constexpr std::chrono::seconds kAccessDeadline(3);
// For calls that are still open when the server goes.
constexpr std::chrono::seconds kShutdownGrace(1);
// Descriptors for whatever is neither a caller's nor the database's: the log,
// the metrics, gRPC's own, certificates being read.
constexpr int kOtherDescriptors = 64;
// Whatever the limit: a server that takes fewer in is of no use.
constexpr int kConnectionsLeast = 16;

bool HasTls(const Config& config) {
  return !config.tls.files.certificate.empty();
}

// Tokens and responses may be read by whoever is in between, unless that is
// nobody, or the operator has said that they are encrypted there.
absl::Status CheckPlaintext(const Config& config,
                            const ListenAddress& address) {
  if (HasTls(config) || address.IsLocal() || config.plaintext_from_network) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", address.text(),
      "\" can be reached from the network, and there is no TLS: everybody in"
      " between could read tokens and responses. Set --tls-certificate-file and"
      " --tls-key-file (DEDUPE_TLS_CERTIFICATE_FILE, DEDUPE_TLS_KEY_FILE), or"
      " listen on loopback or a Unix socket, or, if something else encrypts "
      "that"
      " network, say --plaintext-from-network"
      " (DEDUPE_PLAINTEXT_FROM_NETWORK=true)"));
}

bool AsksForCredentials(const Config& config, const ListenAddress& address) {
  switch (config.authentication) {
    case Authentication::kRequired:
      return true;
    case Authentication::kNone:
      return false;
    case Authentication::kAuto:
      break;
  }
  return HasTls(config) || !address.IsLocal();
}

// Each connection of a caller has two descriptors, each of the database's too.
int ConnectionsMax(const Config& config) {
  const int descriptors = RaiseDescriptorLimit();
  if (config.connections_max > 0) return config.connections_max;
  return std::max(
      kConnectionsLeast,
      (descriptors - kOtherDescriptors - 2 * config.connections) / 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Entrance>> Entrance::Open(
    const Config& config, Store& store, DedupeService& service) {
  const auto address = ListenAddress::Resolve(config.listen_address);
  if (!address.ok()) return address.status();
  if (absl::Status status = CheckPlaintext(config, *address); !status.ok()) {
    return status;
  }
  std::unique_ptr<ServedTls> tls;
  if (HasTls(config)) {
    auto opened = ServedTls::Open(config.tls);
    if (!opened.ok()) return opened.status();
    tls = *std::move(opened);
  }
  const int connections_max = ConnectionsMax(config);
  auto acceptor =
      Acceptor::Open({.address = *address, .connections_max = connections_max});
  if (!acceptor.ok()) return acceptor.status();
  return absl::WrapUnique(new Entrance(config, *address, connections_max,
                                       std::move(tls), *std::move(acceptor),
                                       store, service));
}

Entrance::Access::Access(Store& store)
    : watch([&store](AccessCommand command) {
        return Await(store, &Store::LoadAccess, std::move(command),
                     CallScope(steady_clock::now() + kAccessDeadline));
      }),
      usage(watch,
            [&store](UsageCommand command) {
              return Await(store, &Store::MeasureUsage, std::move(command),
                           CallScope(steady_clock::now() + kAccessDeadline));
            },
            {}) {}

Entrance::Entrance(const Config& config, const ListenAddress& address,
                   int connections_max, std::unique_ptr<ServedTls> tls,
                   std::unique_ptr<Acceptor> acceptor, Store& store,
                   DedupeService& service)
    : config_(config),
      is_local_(address.IsLocal()),
      connections_max_(connections_max),
      tls_(std::move(tls)),
      acceptor_(std::move(acceptor)),
      access_(AsksForCredentials(config, address)
                  ? std::optional<Access>(std::in_place, store)
                  : std::nullopt),
      authenticator_(MakeAuthenticator(access_, tls_.get())),
      ledger_({.calls_max = config.calls_in_flight_max},
              [this](const std::string& peer, absl::Duration keep_out) {
                return acceptor_->Cut(peer, keep_out);
              }),
      rpc_(service, authenticator_, ledger_) {}

Entrance::~Entrance() {
  StopAccepting();
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  }
}

Authenticator Entrance::MakeAuthenticator(const std::optional<Access>& access,
                                          ServedTls* tls) {
  if (!access.has_value()) return Authenticator();
  return Authenticator(access->watch,
                       [tls](const grpc::AuthContext& connection)
                           -> absl::StatusOr<std::vector<std::string>> {
                         if (tls == nullptr) return std::vector<std::string>();
                         return tls->ReadPeer(connection);
                       });
}

void Entrance::Start() {
  server_ = BuildServer(
      config_, *acceptor_,
      has_tls() ? tls_->MakeCredentials() : grpc::InsecureServerCredentials(),
      rpc_, ledger_);
  acceptor_->Start();
}

absl::Status Entrance::AccessStatus() const {
  return access_.has_value() ? access_->watch.Status() : absl::OkStatus();
}

void Entrance::Reload() {
  if (has_tls()) tls_->Reload();
}

void Entrance::StopAccepting() {
  acceptor_->Stop();
  if (access_.has_value()) {
    access_->usage.Stop();
    access_->watch.Stop();
  }
}

}  // namespace dedupe
