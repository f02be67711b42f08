#include "server/app/app.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/app/grpc_server.h"
#include "server/app/served_tls.h"
#include "server/rpc/authenticator.h"
#include "server/rpc/call_ledger.h"
#include "server/rpc/dedupe_rpc.h"
#include "server/rpc/health.h"
#include "server/service/access_watch.h"
#include "server/service/await.h"
#include "server/service/dedupe_service.h"
#include "server/service/limits.h"
#include "server/service/readiness.h"
#include "server/service/reaper.h"
#include "server/service/usage_watch.h"
#include "server/store/embedded_migrations.h"
#include "server/store/migrator.h"
#include "server/store/postgres_store.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"
#include "server/transport/acceptor.h"
#include "server/transport/descriptor.h"
#include "server/transport/listen_address.h"

namespace dedupe {
namespace {

using std::chrono::steady_clock;

// For the first look at the database, before the address is opened.
constexpr std::chrono::seconds kFirstProbeDeadline(3);
// For one reading of the list of principals, and for one page of counting.
constexpr std::chrono::seconds kAccessDeadline(3);
constexpr absl::Duration kDrainPoll = absl::Milliseconds(10);

bool HasTls(const Config& config) {
  return !config.tls.files.certificate.empty();
}

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Returns early, and true, if a signal asks for haste.
bool WaitOrSignal(absl::Duration duration) {
  const sigset_t signals = EndSignals();
  const timespec timeout = absl::ToTimespec(duration);
  return sigtimedwait(&signals, nullptr, &timeout) > 0;
}

// Strangers can make gRPC write a line with every handshake that fails, so only
// so many are kept in a second, and the others counted.
void LogGrpc(gpr_log_func_args* args) {
  constexpr int kLinesPerSecond = 10;
  static std::atomic<int64_t> second{0};
  static std::atomic<int> lines{0};
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  if (second.exchange(now) != now) {
    const int left_out = lines.exchange(0) - kLinesPerSecond;
    if (left_out > 0) {
      Log(Severity::kWarning, "grpc_messages_left_out", {{"count", left_out}});
    }
  }
  if (++lines > kLinesPerSecond) return;
  Log(args->severity == GPR_LOG_SEVERITY_ERROR ? Severity::kWarning
                                               : Severity::kDebug,
      "grpc", {{"message", args->message}});
}

// Protobuf would write to standard error past our log.
void LogProtobuf(google::protobuf::LogLevel, const char*, int,
                 const std::string& message) {
  Log(Severity::kDebug, "protobuf", {{"message", message}});
}

absl::Status CheckDatabaseSchema(const ProbeAnswer& probe) {
  return CheckSchema(probe, EmbeddedMigrations());
}

// Refuses a database that will not do; one that is away may come back.
absl::Status FirstLook(Store& store) {
  const auto probe =
      Await(store, &Store::Probe, ProbeCommand{},
            CallScope(steady_clock::now() + kFirstProbeDeadline));
  if (probe.ok()) return CheckDatabaseSchema(*probe);
  if (absl::IsInternal(probe.status())) {
    return absl::FailedPreconditionError(
        "the database has no schema of dedupe, or this role may not use it; run"
        " `dedupe migrate`, and GRANT dedupe_runtime to the role");
  }
  return absl::OkStatus();
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

// Each connection has two; the rest is for the database, files and gRPC's own.
int ConnectionsMax(const Config& config) {
  if (config.connections_max > 0) return config.connections_max;
  const int descriptors = RaiseDescriptorLimit();
  return std::max(16, (descriptors - 64 - 2 * config.connections) / 2);
}

// The list of principals, and whoever keeps it and its counts current.
class Access {
 public:
  explicit Access(Store& store)
      : watch_([&store](AccessCommand command) {
          return Await(store, &Store::LoadAccess, std::move(command),
                       CallScope(steady_clock::now() + kAccessDeadline));
        }),
        usage_(watch_,
               [&store](UsageCommand command) {
                 return Await(store, &Store::MeasureUsage, std::move(command),
                              CallScope(steady_clock::now() + kAccessDeadline));
               },
               {}) {}

  void Stop() {
    usage_.Stop();
    watch_.Stop();
  }
  const AccessWatch& watch() const { return watch_; }

 private:
  AccessWatch watch_;
  UsageWatch usage_;
};

Authenticator MakeAuthenticator(const std::optional<Access>& access,
                                ServedTls* tls) {
  if (!access.has_value()) return Authenticator();
  return Authenticator(access->watch(),
                       [tls](const grpc::AuthContext& connection)
                           -> absl::StatusOr<std::vector<std::string>> {
                         if (tls == nullptr) return std::vector<std::string>();
                         return tls->ReadPeer(connection);
                       });
}

// Returns the signal that asks for the end; at a SIGHUP, certificates are
// looked at.
int AwaitEnd(ServedTls* tls) {
  sigset_t signals = EndSignals();
  sigaddset(&signals, SIGHUP);
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGHUP) return signal;
    Log(Severity::kInfo, "reload_asked");
    if (tls != nullptr) tls->Reload();
  }
}

// Until nothing is in flight, the time is up or a signal asks for haste.
void WaitForCalls(const DedupeRpc& rpc, absl::Duration grace) {
  const auto until = steady_clock::now() + absl::ToChronoNanoseconds(grace);
  while (rpc.calls_in_flight() > 0 && steady_clock::now() < until) {
    if (WaitOrSignal(kDrainPoll)) return;
  }
}

}  // namespace

const char* Version() { return DEDUPE_VERSION; }

void PrepareProcess() {
  sigset_t signals = EndSignals();
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // gRPC 1.51 can be made to abort by headers that it would write to its own
  // debug log (CVE-2023-1428). There is nobody to fork for, either.
  unsetenv("GRPC_TRACE");
  setenv("GRPC_VERBOSITY", "ERROR", 1);
  setenv("GRPC_ENABLE_FORK_SUPPORT", "0", 1);
}

absl::Status Serve(const Config& config) {
  ConfigureLog(config.log_format, config.log_level);
  gpr_set_log_function(LogGrpc);
  google::protobuf::SetLogHandler(LogProtobuf);

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
  std::unique_ptr<MetricsEndpoint> metrics;
  if (!config.metrics_address.empty()) {
    auto opened = MetricsEndpoint::Open(config.metrics_address);
    if (!opened.ok()) return opened.status();
    metrics = *std::move(opened);
  }

  PostgresStore store({.database_url = config.database_url,
                       .connections = config.connections,
                       .batch_calls_max = config.batch_max,
                       .queue_calls_max = config.queue_max,
                       .queue_bytes_max = config.queue_bytes_max,
                       .statement_timeout = config.statement_timeout});
  if (absl::Status status = FirstLook(store); !status.ok()) return status;

  const int connections_max = ConnectionsMax(config);
  auto acceptor =
      Acceptor::Open({.address = *address, .connections_max = connections_max});
  if (!acceptor.ok()) return acceptor.status();
  const bool asks_for_credentials = AsksForCredentials(config, *address);
  std::optional<Access> access;
  if (asks_for_credentials) access.emplace(store);
  const Authenticator authenticator = MakeAuthenticator(access, tls.get());

  DedupeService service(store, config.waiters_max);
  CallLedger ledger(
      {.calls_max = config.calls_in_flight_max},
      [&acceptor](const std::string& peer) { (*acceptor)->Cut(peer); });
  DedupeRpc rpc(service, authenticator, ledger);
  const std::unique_ptr<grpc::Server> server =
      BuildServer(config, **acceptor,
                  tls != nullptr ? tls->MakeCredentials()
                                 : grpc::InsecureServerCredentials(),
                  rpc);
  (*acceptor)->Start();
  Health health(*server);
  Readiness readiness(
      store,
      [&access](const ProbeAnswer& probe) {
        absl::Status status = CheckDatabaseSchema(probe);
        if (status.ok() && access.has_value()) {
          status = access->watch().Status();
        }
        return status;
      },
      [&health](bool ready) { health.SetReady(ready); });
  Reaper reaper(store, {.interval = config.reap_interval,
                        .batch_rows_max = config.reap_batch});
  Log(Severity::kInfo, "serving",
      {{"address", config.listen_address},
       {"tls", tls != nullptr},
       {"authentication", asks_for_credentials ? "required" : "none"},
       {"connections_max", connections_max},
       {"version", Version()},
       {"schema_version", EmbeddedMigrations().back().version}});

  Log(Severity::kInfo, "draining", {{"signal", AwaitEnd(tls.get())}});
  readiness.Stop();
  health.SetReady(false);
  reaper.Stop();
  WaitOrSignal(config.drain_delay);
  rpc.Drain();
  service.StopWaiting();
  WaitForCalls(rpc, config.drain_grace);
  (*acceptor)->Stop();
  if (access.has_value()) access->Stop();
  // Answers whatever is still open, so that Shutdown finds nothing to wait for.
  store.Stop();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  Log(Severity::kInfo, "stopped");
  return absl::OkStatus();
}

absl::Status MigrateDatabase(const Config& config) {
  ConfigureLog(config.log_format, config.log_level);
  const auto applied = Migrate(config.database_url, EmbeddedMigrations());
  if (!applied.ok()) return applied.status();
  for (const int version : *applied) {
    Log(Severity::kInfo, "migration_applied",
        {{"name",
          std::string(
              EmbeddedMigrations()[static_cast<size_t>(version - 1)].name)}});
  }
  Log(Severity::kInfo, "migrated",
      {{"schema_version", EmbeddedMigrations().back().version},
       {"applied", static_cast<int64_t>(applied->size())}});
  return absl::OkStatus();
}

}  // namespace dedupe
