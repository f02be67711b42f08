#include "server/store/batcher.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "absl/time/clock.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

// How long a call waits for a database that is away: a restart is shorter, and
// a caller with a long deadline wants to know.
constexpr std::chrono::seconds kPatience(3);
// An answer that is to arrive before the caller gives up leaves so much
// earlier, or a tenth of the call's time if that is less.
constexpr std::chrono::milliseconds kAnswerMargin(50);
// No connection is cut sooner, however impatient its callers: connecting anew
// costs more than waiting.
constexpr std::chrono::seconds kCutAfter(1);
constexpr std::chrono::milliseconds kWatchTick(10);
// A job whose connection broke so many times is given up.
constexpr int kFailuresMax = 5;
// A batch that met a lock is tried again in parts of this fraction.
constexpr size_t kSplit = 8;
constexpr absl::Duration kReconnectFirst = absl::Milliseconds(50);
constexpr absl::Duration kReconnectMost = absl::Seconds(1);
constexpr absl::Duration kLockRetryFirst = absl::Milliseconds(10);
constexpr absl::Duration kLockRetryMost = absl::Milliseconds(250);

SteadyTime Now() { return std::chrono::steady_clock::now(); }

// When an open call is to be told that the database does not answer.
SteadyTime LastWord(const Job& job) {
  const auto whole = job.scope.deadline() - job.queued_at;
  return job.scope.deadline() -
         std::min<SteadyTime::duration>(kAnswerMargin, whole / 10);
}

}  // namespace

Batcher::Batcher(Options options, Executor executor)
    : options_(std::move(options)),
      executor_(std::move(executor)),
      queue_(options_.queue),
      down_since_(Now()) {
  for (int i = 0; i < options_.connections; ++i) {
    workers_.push_back(std::make_unique<Worker>());
  }
  // Only now, because the watchdog walks over all of them.
  for (const auto& worker : workers_) {
    worker->thread = std::thread([this, &worker] { RunWorker(*worker); });
  }
  watchdog_ = std::thread([this] { RunWatchdog(); });
}

Batcher::~Batcher() { Stop(); }

void Batcher::Submit(const JobPtr& job) {
  const SteadyTime now = Now();
  Reason refusal = Reason::kUnknown;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) {
      refusal = Reason::kDraining;
    } else if (StoreIsDown() && (given_up_ || now - down_since_ > kPatience)) {
      refusal = Reason::kStoreDown;
    } else if (!queue_.Push(job, now)) {
      refusal = Reason::kOverloaded;
    } else {
      work_arrived_.Signal();
      watch_needed_.Signal();
    }
  }
  if (refusal != Reason::kUnknown) job->Refuse(Refusal(refusal));
}

void Batcher::Stop() {
  std::vector<JobPtr> open;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    open = queue_.TakeAll();
    for (const auto& worker : workers_) {
      open.insert(open.end(), worker->running.begin(), worker->running.end());
      if (worker->connection != nullptr) worker->connection->Cut();
    }
    work_arrived_.SignalAll();
    watch_needed_.SignalAll();
  }
  for (const JobPtr& job : open) job->Refuse(Refusal(Reason::kDraining));
  for (const auto& worker : workers_) worker->thread.join();
  watchdog_.join();
}

void Batcher::RunWorker(Worker& worker) {
  while (Connect(worker)) {
    const std::vector<JobPtr> jobs = NextBatch(worker);
    if (jobs.empty()) break;
    if (worker.connection->IsStale()) {
      GiveBack(worker, jobs);
      Disconnect(worker);
      continue;
    }
    Settle(worker, jobs, executor_(*worker.connection, jobs));
  }
  Disconnect(worker);
}

bool Batcher::Connect(Worker& worker) {
  int failures = 0;
  while (worker.connection == nullptr) {
    absl::Duration pause;
    auto connection = Connection::Open(options_.database_url);
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return false;
      if (connection.ok()) {
        worker.connection = *std::move(connection);
        ++connected_;
        given_up_ = false;
        return true;
      }
      pause = Backoff(failures++, kReconnectFirst, kReconnectMost);
    }
    Log(Severity::kWarning, "database_connect_failed",
        {{"message", std::string(connection.status().message())}});
    const SteadyTime until = Now() + absl::ToChronoNanoseconds(pause);
    while (Now() < until) {
      std::this_thread::sleep_for(kWatchTick);
      absl::MutexLock lock(&mutex_);
      if (stopping_) return false;
    }
  }
  absl::MutexLock lock(&mutex_);
  return !stopping_;
}

void Batcher::Disconnect(Worker& worker) {
  std::unique_ptr<Connection> connection;
  absl::MutexLock lock(&mutex_);
  if (worker.connection == nullptr) return;
  connection = std::move(worker.connection);
  if (--connected_ == 0) down_since_ = Now();
}

std::vector<JobPtr> Batcher::NextBatch(Worker& worker) {
  while (true) {
    std::vector<JobPtr> batch;
    Refusals refusals;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && !queue_.HasJobs() && !MayTakeQuarantined(Now())) {
        work_arrived_.Wait(&mutex_);
      }
      if (stopping_) return {};
      const SteadyTime now = Now();
      worker.from_quarantine = MayTakeQuarantined(now);
      // Nothing is asked of the database for a caller who has gone.
      for (JobPtr& job : worker.from_quarantine ? queue_.TakeQuarantined(now)
                                                : queue_.Take(now)) {
        if (job->scope.cancelled()) {
          refusals.emplace_back(std::move(job), Reason::kCancelled);
        } else if (job->scope.deadline() <= now) {
          refusals.emplace_back(std::move(job), Reason::kDeadlineExceeded);
        } else {
          batch.push_back(std::move(job));
        }
      }
      worker.running = batch;
      worker.running_since = now;
      if (batch.empty()) worker.from_quarantine = false;
    }
    for (const auto& [job, reason] : refusals) job->Refuse(Refusal(reason));
    if (!batch.empty()) return batch;
  }
}

void Batcher::GiveBack(Worker& worker, std::vector<JobPtr> jobs) {
  absl::MutexLock lock(&mutex_);
  worker.running.clear();
  worker.from_quarantine = false;
  // Stop() has refused them otherwise.
  if (!stopping_) queue_.Return(std::move(jobs), Now());
  work_arrived_.SignalAll();
}

void Batcher::Settle(Worker& worker, const std::vector<JobPtr>& jobs,
                     BatchResult result) {
  {
    absl::MutexLock lock(&mutex_);
    worker.running.clear();
    worker.from_quarantine = false;
  }
  if (result.status.ok()) {
    if (!result.again.empty()) {
      Repeat(std::move(result.again), absl::AbortedError("changed by others"));
    }
    return;
  }
  Log(absl::IsAborted(result.status) ? Severity::kDebug : Severity::kWarning,
      "database_error",
      {{"calls", static_cast<int64_t>(jobs.size())},
       {"message", std::string(result.status.message())}});
  switch (result.status.code()) {
    case absl::StatusCode::kUnavailable:
      Disconnect(worker);
      Repeat(jobs, result.status);
      return;
    case absl::StatusCode::kInvalidArgument:
      // One of them is to blame, which must not harm the others.
      if (jobs.size() > 1) {
        Repeat(jobs, result.status);
        return;
      }
      break;
    case absl::StatusCode::kAborted:
      Repeat(jobs, result.status);
      return;
    default:
      break;
  }
  const bool no_room = absl::IsResourceExhausted(result.status);
  for (const JobPtr& job : jobs) {
    job->Refuse(Refusal(no_room ? Reason::kStoreDown : Reason::kStoreBroken));
  }
}

void Batcher::Repeat(std::vector<JobPtr> jobs, const absl::Status& status) {
  const SteadyTime now = Now();
  const size_t company = std::max<size_t>(1, jobs.size() / kSplit);
  const bool alone = jobs.size() == 1;
  std::vector<JobPtr> repeated;
  Refusals refusals;
  {
    absl::MutexLock lock(&mutex_);
    for (JobPtr& job : jobs) {
      ++job->failures;
      job->in_doubt |= absl::IsUnavailable(status);
      if (stopping_) {
        refusals.emplace_back(std::move(job), Reason::kDraining);
        continue;
      }
      if (absl::IsUnavailable(status) && job->failures > kFailuresMax) {
        refusals.emplace_back(std::move(job), Reason::kStoreDown);
        continue;
      }
      if (absl::IsAborted(status)) {
        job->company_max = company;
      } else if (absl::IsInvalidArgument(status) || job->failures > 1) {
        job->company_max = 1;
      }
      if (absl::IsAborted(status) && alone) {
        job->not_before =
            now + absl::ToChronoNanoseconds(
                      Backoff(job->failures, kLockRetryFirst, kLockRetryMost));
      }
      repeated.push_back(std::move(job));
    }
    queue_.Return(std::move(repeated), now);
    work_arrived_.SignalAll();
    watch_needed_.Signal();
  }
  for (const auto& [job, reason] : refusals) job->Refuse(Refusal(reason));
}

absl::Duration Batcher::Backoff(int failures, absl::Duration first,
                                absl::Duration most) {
  const absl::Duration whole =
      std::min(first * (1 << std::min(failures, 16)), most);
  return whole * absl::Uniform(random_, 0.5, 1.0);
}

bool Batcher::MayTakeQuarantined(SteadyTime now) const {
  if (!queue_.HasQuarantined(now)) return false;
  return std::none_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker->from_quarantine;
  });
}

void Batcher::RunWatchdog() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && !HasWork()) watch_needed_.Wait(&mutex_);
      if (stopping_) return;
    }
    std::this_thread::sleep_for(kWatchTick);
    Refusals refusals;
    {
      absl::MutexLock lock(&mutex_);
      const SteadyTime now = Now();
      refusals = WatchQueue(now);
      Refusals of_workers = WatchWorkers(now);
      std::move(of_workers.begin(), of_workers.end(),
                std::back_inserter(refusals));
      if (queue_.HasQuarantined(now)) work_arrived_.Signal();
    }
    for (const auto& [job, reason] : refusals) job->Refuse(Refusal(reason));
    if (!refusals.empty()) {
      absl::MutexLock lock(&mutex_);
      queue_.RemoveAnswered();
    }
  }
}

Batcher::Refusals Batcher::WatchQueue(SteadyTime now) {
  Refusals refusals;
  const bool down = StoreIsDown();
  bool given_up = false;
  queue_.ForEach([&](const JobPtr& job) {
    if (job->scope.cancelled()) {
      refusals.emplace_back(job, Reason::kCancelled);
    } else if (down && now - job->queued_at > kPatience) {
      given_up = true;
      refusals.emplace_back(job, Reason::kStoreDown);
    } else if (down && now > LastWord(*job)) {
      refusals.emplace_back(job, Reason::kStoreDown);
    } else if (now >= job->scope.deadline()) {
      refusals.emplace_back(job, Reason::kDeadlineExceeded);
    }
  });
  given_up_ |= given_up;
  return refusals;
}

Batcher::Refusals Batcher::WatchWorkers(SteadyTime now) {
  Refusals refusals;
  for (const auto& worker : workers_) {
    if (worker->running.empty()) continue;
    SteadyTime last_deadline = SteadyTime::min();
    for (const JobPtr& job : worker->running) {
      last_deadline = std::max(last_deadline, job->scope.deadline());
      // In time for the answer to arrive, which says more than silence.
      if (now > LastWord(*job) && !job->answered()) {
        refusals.emplace_back(job, Reason::kStoreDown);
      }
    }
    const auto running = now - worker->running_since;
    if ((now > last_deadline && running > kCutAfter) ||
        running > absl::ToChronoNanoseconds(options_.statement_timeout)) {
      worker->connection->Cut();
    }
  }
  return refusals;
}

bool Batcher::HasWork() const {
  return queue_.jobs() > 0 ||
         std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
           return !worker->running.empty();
         });
}

bool Batcher::StoreIsDown() const { return connected_ == 0; }

}  // namespace dedupe
