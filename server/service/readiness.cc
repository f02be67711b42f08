#include "server/service/readiness.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "server/service/await.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

// A database that has gone is noticed within about two seconds.
constexpr std::chrono::seconds kProbeDeadline(1);
constexpr std::chrono::milliseconds kProbeInterval(500);
constexpr std::chrono::milliseconds kSleepStep(20);
// A full queue tells nothing of the database; so long it is taken for well.
constexpr std::chrono::seconds kBusyTrust(5);

SteadyTime Now() { return std::chrono::steady_clock::now(); }

}  // namespace

Readiness::Readiness(Store& store, SchemaCheck check, OnChange on_change)
    : store_(store),
      check_(std::move(check)),
      on_change_(std::move(on_change)) {
  thread_ = std::thread([this] { Run(); });
}

Readiness::~Readiness() { Stop(); }

void Readiness::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Readiness::Run() {
  std::optional<bool> ready;
  SteadyTime last_success = Now();
  while (!stopping_) {
    const absl::Status finding = Probe();
    if (finding.ok()) last_success = Now();
    const bool busy =
        absl::IsResourceExhausted(finding) && Now() - last_success < kBusyTrust;
    if (!busy && ready != finding.ok()) {
      ready = finding.ok();
      Report(finding);
    }
    const SteadyTime until = Now() + kProbeInterval;
    while (!stopping_ && Now() < until) {
      std::this_thread::sleep_for(kSleepStep);
    }
  }
}

absl::Status Readiness::Probe() const {
  const auto answer = Await(store_, &Store::Probe, ProbeCommand{},
                            CallScope(Now() + kProbeDeadline));
  return answer.ok() ? check_(*answer) : answer.status();
}

void Readiness::Report(const absl::Status& finding) const {
  if (finding.ok()) {
    Log(Severity::kInfo, "ready");
  } else {
    Log(Severity::kWarning, "not_ready",
        {{"message", std::string(finding.message())}});
  }
  on_change_(finding.ok());
}

}  // namespace dedupe
