#include "server/app/app.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/dedupe_rpc.h"
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

void LogGrpc(gpr_log_func_args* args) {
  Log(args->severity == GPR_LOG_SEVERITY_ERROR ? Severity::kWarning
                                               : Severity::kDebug,
      "grpc", {{"message", args->message}});
}

// Protobuf would write to standard error past our log.
void LogProtobuf(google::protobuf::LogLevel, const char*, int,
                 const std::string& message) {
  Log(Severity::kDebug, "protobuf", {{"message", message}});
}

// gRPC's reflection library adds itself to every server of a program that links
// it, so it has to be taken out.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) {
      return plugin->name() == "proto_server_reflection";
    });
  }
};

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

std::unique_ptr<grpc::Server> Listen(const Config& config,
                                     grpc::Service& service) {
  Health::Enable();
  grpc::ServerBuilder builder;
  if (config.reflection) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  } else {
    builder.SetOption(std::make_unique<WithoutReflection>());
  }
  builder.AddListeningPort(config.listen_address,
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetMaxSendMessageSize(kMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      static_cast<int>(absl::ToInt64Milliseconds(kPingIntervalMin)));
  // Two servers on one port would share its connections without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // gRPC 1.51 bounds a message before it is decompressed, not after: nothing is
  // decompressed, and what is compressed is a malformed message. To disable the
  // algorithms would answer UNIMPLEMENTED beside the handler, not instead of
  // it: a plain message that merely names one would be refused and take effect.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  return builder.BuildAndStart();
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

void PrepareSignals() {
  const sigset_t signals = EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

absl::Status Serve(const Config& config) {
  ConfigureLog(config.log_format, config.log_level);
  gpr_set_log_function(LogGrpc);
  google::protobuf::SetLogHandler(LogProtobuf);
  PostgresStore store({.database_url = config.database_url,
                       .connections = config.connections,
                       .batch_calls_max = config.batch_max,
                       .queue_calls_max = config.queue_max,
                       .queue_bytes_max = config.queue_bytes_max,
                       .statement_timeout = config.statement_timeout});
  if (absl::Status status = FirstLook(store); !status.ok()) return status;

  DedupeService service(store, config.waiters_max);
  DedupeRpc rpc(service);
  const std::unique_ptr<grpc::Server> server = Listen(config, rpc);
  if (server == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on \"", config.listen_address,
                     "\": it is in use, or not an address of this machine; set"
                     " --listen-address (DEDUPE_LISTEN_ADDRESS)"));
  }
  Health health(*server);
  Readiness readiness(store, CheckDatabaseSchema,
                      [&health](bool ready) { health.SetReady(ready); });
  Reaper reaper(store, {.interval = config.reap_interval,
                        .batch_rows_max = config.reap_batch});
  Log(Severity::kInfo, "serving",
      {{"address", config.listen_address},
       {"version", Version()},
       {"schema_version", EmbeddedMigrations().back().version}});

  const sigset_t signals = EndSignals();
  int signal = 0;
  sigwait(&signals, &signal);
  Log(Severity::kInfo, "draining", {{"signal", signal}});
  readiness.Stop();
  health.SetReady(false);
  reaper.Stop();
  WaitOrSignal(config.drain_delay);
  rpc.Drain();
  service.StopWaiting();
  WaitForCalls(rpc, config.drain_grace);
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
