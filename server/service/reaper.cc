#include "server/service/reaper.h"

#include <algorithm>
#include <chrono>

#include "server/service/await.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

constexpr absl::Duration kClockSlack = absl::Minutes(1);
constexpr std::chrono::seconds kReapDeadline(5);
constexpr absl::Duration kPauseMin = absl::Milliseconds(10);
constexpr std::chrono::milliseconds kSleepStep(20);

SteadyTime Now() { return std::chrono::steady_clock::now(); }

}  // namespace

std::optional<absl::Time> ClockGuard::Latest(SteadyTime now) const {
  if (!database_time_.has_value()) return std::nullopt;
  return *database_time_ + 2 * absl::FromChrono(now - observed_at_) +
         kClockSlack;
}

void ClockGuard::Observe(absl::Time database_time, SteadyTime now) {
  database_time_ = database_time;
  observed_at_ = now;
}

Reaper::Reaper(Store& store, Options options)
    : store_(store), options_(options) {
  thread_ = std::thread([this] { Run(); });
}

Reaper::~Reaper() { Stop(); }

void Reaper::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Reaper::Run() {
  ClockGuard guard;
  while (!stopping_) {
    const SteadyTime start = Now();
    const bool more = ReapOnce(guard);
    // At most half of the time is spent on deleting.
    Sleep(more ? std::max(kPauseMin, absl::FromChrono(Now() - start))
               : options_.interval);
  }
}

bool Reaper::ReapOnce(ClockGuard& guard) {
  const SteadyTime now = Now();
  const bool distrusted = now < distrust_until_;
  const std::optional<absl::Time> latest = guard.Latest(now);
  ReapCommand command;
  command.latest = latest;
  // The first time, and while in distrust, only the clock is read.
  command.row_limit =
      latest.has_value() && !distrusted ? options_.batch_rows_max : 0;
  const auto answer =
      Await(store_, &Store::Reap, command, CallScope(now + kReapDeadline));
  if (!answer.ok()) return false;
  guard.Observe(answer->decided_at, Now());
  if (answer->clock_refused) {
    distrust_until_ = Now() + absl::ToChronoNanoseconds(options_.distrust);
    Log(Severity::kError, "reaper_clock_jump",
        {{"ahead_seconds", absl::ToDoubleSeconds(answer->decided_at - *latest)},
         {"paused_seconds", absl::ToDoubleSeconds(options_.distrust)}});
    return false;
  }
  if (answer->deleted > 0) {
    Log(Severity::kDebug, "reaped",
        {{"examined", answer->examined},
         {"deleted", answer->deleted},
         {"lag_seconds", absl::ToDoubleSeconds(answer->lag)}});
  }
  return command.row_limit == 0 ? !latest.has_value()
                                : answer->examined >= command.row_limit;
}

void Reaper::Sleep(absl::Duration duration) const {
  const SteadyTime until = Now() + absl::ToChronoNanoseconds(duration);
  while (!stopping_ && Now() < until) {
    std::this_thread::sleep_for(
        std::min<SteadyTime::duration>(kSleepStep, until - Now()));
  }
}

}  // namespace dedupe
