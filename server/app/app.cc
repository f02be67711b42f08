#include "server/app/app.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/app/entrance.h"
#include "server/rpc/health.h"
#include "server/service/await.h"
#include "server/service/dedupe_service.h"
#include "server/service/limits.h"
#include "server/service/readiness.h"
#include "server/service/reaper.h"
#include "server/store/embedded_migrations.h"
#include "server/store/migrator.h"
#include "server/store/postgres_store.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace dedupe {
namespace {

using std::chrono::steady_clock;

// For the first look at the database, before the address is opened.
constexpr std::chrono::seconds kFirstProbeDeadline(3);
constexpr absl::Duration kDrainPoll = absl::Milliseconds(10);

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

// What an operator may not have meant is said out loud.
void LogServing(const Config& config, const Entrance& entrance) {
  if (!entrance.is_local() && !entrance.has_tls()) {
    Log(Severity::kWarning, "plaintext_from_network",
        {{"meaning", "whoever is in between can read tokens and responses"}});
  }
  if (!entrance.asks_for_credentials() &&
      (!entrance.is_local() || entrance.has_tls())) {
    Log(Severity::kWarning, "no_authentication",
        {{"meaning", "whoever can connect may do everything"}});
  }
  Log(Severity::kInfo, "serving",
      {{"address", config.listen_address},
       {"tls", entrance.has_tls()},
       {"authentication",
        entrance.asks_for_credentials() ? "required" : "none"},
       {"connections_max", entrance.connections_max()},
       {"version", Version()},
       {"schema_version", EmbeddedMigrations().back().version}});
}

// Returns the signal that asks for the end; at a SIGHUP, certificates are
// looked at.
int AwaitEnd(Entrance& entrance) {
  sigset_t signals = EndSignals();
  sigaddset(&signals, SIGHUP);
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGHUP) return signal;
    Log(Severity::kInfo, "reload_asked");
    entrance.Reload();
  }
}

// Until nothing is in flight, the time is up or a signal asks for haste.
void WaitForCalls(const Entrance& entrance, absl::Duration grace) {
  const auto until = steady_clock::now() + absl::ToChronoNanoseconds(grace);
  while (entrance.calls_in_flight() > 0 && steady_clock::now() < until) {
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
  DedupeService service(store, config.waiters_max);
  auto opened = Entrance::Open(config, store, service);
  if (!opened.ok()) return opened.status();
  const std::unique_ptr<Entrance> entrance = *std::move(opened);
  if (absl::Status status = FirstLook(store); !status.ok()) return status;

  entrance->Start();
  Health health(entrance->server());
  Readiness readiness(
      store,
      [&entrance](const ProbeAnswer& probe) {
        absl::Status status = CheckDatabaseSchema(probe);
        return status.ok() ? entrance->AccessStatus() : status;
      },
      [&health](bool ready) { health.SetReady(ready); });
  Reaper reaper(store, {.interval = config.reap_interval,
                        .batch_rows_max = config.reap_batch});
  LogServing(config, *entrance);

  Log(Severity::kInfo, "draining", {{"signal", AwaitEnd(*entrance)}});
  readiness.Stop();
  health.SetReady(false);
  reaper.Stop();
  WaitOrSignal(config.drain_delay);
  entrance->Drain();
  service.StopWaiting();
  WaitForCalls(*entrance, config.drain_grace);
  entrance->StopAccepting();
  // Answers whatever is still open, so that nothing is left to wait for.
  store.Stop();
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
