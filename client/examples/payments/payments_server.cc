// The payments service: POST /v1/charges, at most one charge for each
// Idempotency-Key.
#include <httplib.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/usage.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/examples/payments/charging.h"
#include "client/examples/payments/command_line.h"
#include "client/examples/payments/ledger.h"
#include "client/examples/payments/settings.h"
#include "dedupe/fingerprint.h"
#include "dedupe/http.h"

namespace payments {
namespace {

using dedupe::client::KeyHeader;
using dedupe::client::KeyMalformed;
using dedupe::client::KeyMissing;
using dedupe::client::NotRecorded;
using dedupe::client::Response;
using dedupe::client::RunOnceOutcome;
using dedupe::client::Unknown;

constexpr char kOperation[] = "POST /v1/charges";
constexpr size_t kBodyBytesMax = 64 * 1024;
// Requests at one time; the others queue. Each may hold two connections to the
// database.
constexpr size_t kThreads = 32;
constexpr absl::Duration kStopPoll = absl::Milliseconds(1);

std::vector<std::string> ValuesOf(const httplib::Request& request,
                                  const char* name) {
  std::vector<std::string> values;
  const auto [begin, end] = request.headers.equal_range(name);
  for (auto header = begin; header != end; ++header) {
    values.push_back(header->second);
  }
  return values;
}

// Empty if nobody has this secret.
std::string ClientIdOf(const Settings& settings,
                       const httplib::Request& request) {
  const std::string authorization = request.get_header_value("Authorization");
  absl::string_view secret = authorization;
  if (!absl::ConsumePrefix(&secret, "Bearer ")) return "";
  const auto client = settings.client_id_by_secret.find(std::string(secret));
  return client == settings.client_id_by_secret.end() ? "" : client->second;
}

// Only what somebody may have to look into.
void Log(const absl::StatusOr<RunOnceOutcome>& outcome) {
  absl::Status status = outcome.status();
  if (outcome.ok()) {
    if (const auto* unknown = std::get_if<Unknown>(&*outcome)) {
      status = unknown->status;
    } else if (const auto* late = std::get_if<NotRecorded>(&*outcome)) {
      status = late->status;
    }
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
}

Response AnswerCharge(const Settings& settings, ChargingDoor& door,
                      const httplib::Request& http) {
  KeyedRequest request;
  request.client_id = ClientIdOf(settings, http);
  if (request.client_id.empty()) return AnswerUnauthorized();
  const std::vector<std::string> keys =
      ValuesOf(http, dedupe::client::kIdempotencyKeyHeader);
  const KeyHeader key = dedupe::client::ReadIdempotencyKey(keys);
  if (std::holds_alternative<KeyMissing>(key)) {
    return dedupe::client::AnswerKeyMissing();
  }
  if (const auto* malformed = std::get_if<KeyMalformed>(&key)) {
    return dedupe::client::AnswerKeyMalformed(*malformed);
  }
  request.key = std::get<std::string>(key);
  request.operation = kOperation;
  request.body = http.body;
  const std::vector<std::string> content_types = ValuesOf(http, "Content-Type");
  dedupe::client::RequestParts parts;
  parts.operation = kOperation;
  if (!content_types.empty()) parts.content_type = content_types.front();
  parts.body = http.body;
  request.fingerprint = dedupe::client::FingerprintRaw(parts);
  const auto outcome = door.Charge(request);
  Log(outcome);
  return dedupe::client::ToHttp(outcome, settings.charging.profile);
}

void Send(const Response& answer, httplib::Response& http) {
  http.status = answer.code;
  http.body = answer.body;
  for (const auto& header : answer.headers) {
    http.headers.emplace(header.name, header.value);
  }
}

void AddRoutes(httplib::Server& server, const Settings& settings,
               ChargingDoor& door) {
  server.Get("/healthz", [](const httplib::Request&, httplib::Response& http) {
    http.set_content("ok\n", "text/plain");
  });
  server.Post("/v1/charges",
              [&](const httplib::Request& request, httplib::Response& http) {
                Send(AnswerCharge(settings, door, request), http);
              });
}

// Serves until the process is told to end. `ending` are the blocked signals
// that say so.
int Serve(const Settings& settings, ChargingDoor& door, std::stop_source& stop,
          const sigset_t& ending) {
  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_payload_max_length(kBodyBytesMax);
  // A connection that says nothing more would keep its thread.
  server.set_keep_alive_timeout(1);
  AddRoutes(server, settings, door);
  const int port = settings.port == 0 ? server.bind_to_any_port(settings.host)
                                      : settings.port;
  if (port < 0 || (settings.port != 0 &&
                   !server.bind_to_port(settings.host, settings.port))) {
    std::fprintf(stderr, "cannot listen there\n");
    return 1;
  }
  std::printf("listening on %s:%d\n", settings.host.c_str(), port);
  std::fflush(stdout);

  std::atomic<bool> over = false;
  std::thread end([&] {
    int signal = 0;
    sigwait(&ending, &signal);
    stop.request_stop();
    // Before it listens, to stop it is without effect.
    while (!server.is_running() && !over) absl::SleepFor(kStopPoll);
    server.stop();
  });
  const bool served = server.listen_after_bind();
  over = true;
  // To the process: this thread has the signal blocked.
  if (!served) kill(getpid(), SIGTERM);
  end.join();
  return served ? 0 : 1;
}

int Run() {
  // Before the first thread, which all inherit it; Serve waits for them.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);

  std::stop_source stop;
  const absl::StatusOr<Settings> settings = ReadSettings(stop.get_token());
  if (!settings.ok()) {
    std::fprintf(stderr, "%s\n", settings.status().ToString().c_str());
    return 1;
  }
  if (settings->install_schema) {
    InstallSchema(settings->charging.ledger_url, settings->door);
    return 0;
  }
  // Says why, if it cannot be reached.
  OpenLedger(settings->charging.ledger_url);
  if (settings->door == Door::kShared) {
    return Serve(*settings,
                 *MakeSharedDoor(settings->charging, *settings->faults), stop,
                 ending);
  }
  auto door =
      MakeReceiptsDoor(settings->dedupe, settings->charging, *settings->faults);
  if (!door.ok()) {
    std::fprintf(stderr, "%s\n", door.status().ToString().c_str());
    return 1;
  }
  return Serve(*settings, **door, stop, ending);
}

}  // namespace
}  // namespace payments

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Charges cards, once for each Idempotency-Key.");
  payments::ParseCommandLine(argc, argv);
  try {
    return payments::Run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
