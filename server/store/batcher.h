// Natural batching: a connection that is free takes whatever is queued, runs it
// as one statement and answers each call. No timer: on an idle system a call
// runs at once and alone; the busier it is, the larger the batches.
//
// All that can go wrong with a connection is dealt with here: reconnecting with
// back-off, repeating a batch whose connection broke (every call may be
// repeated), keeping apart what met a lock, and answering every call by its
// deadline, however stuck the database is.
#ifndef DEDUPE_SERVER_STORE_BATCHER_H_
#define DEDUPE_SERVER_STORE_BATCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/reason.h"
#include "server/store/connection.h"
#include "server/store/job.h"
#include "server/store/job_queue.h"

namespace dedupe {

// Thread-safe.
class Batcher {
 public:
  struct Options {
    std::string database_url;
    // Also the number of threads that talk to the database.
    int connections = 0;
    JobQueue::Limits queue;
    // A statement that takes longer costs its connection.
    absl::Duration statement_timeout;
  };

  struct BatchResult {
    // OK: each job was answered or is in `again`. Else an error of
    // postgres_error.h, and none was.
    absl::Status status;
    // To be asked again: others kept changing their records.
    std::vector<JobPtr> again;
  };
  // Runs the jobs, all of one verb, sorted by id, as one statement. Blocks.
  using Executor =
      std::function<BatchResult(Connection&, const std::vector<JobPtr>&)>;

  Batcher(Options options, Executor executor);
  // As Stop().
  ~Batcher();

  // Queues a job or refuses it at once: OVERLOADED, STORE_DOWN, DRAINING.
  void Submit(const JobPtr& job);

  // Refuses everything still open with DRAINING, cuts the connections and waits
  // for the threads. Idempotent.
  void Stop();

 private:
  // What one connection is at.
  struct Worker {
    std::thread thread;
    // Set and cleared under mutex_, because the watchdog cuts it; used by its
    // own thread alone.
    std::unique_ptr<Connection> connection;
    std::vector<JobPtr> running;
    SteadyTime running_since;
    bool from_quarantine = false;
  };

  void RunWorker(Worker& worker);
  // False if stopped.
  bool Connect(Worker& worker);
  void Disconnect(Worker& worker);
  // Blocks until there is something to run; empty if stopped.
  std::vector<JobPtr> NextBatch(Worker& worker);
  // Of jobs that were not sent.
  void GiveBack(Worker& worker, std::vector<JobPtr> jobs);
  void Settle(Worker& worker, const std::vector<JobPtr>& jobs,
              BatchResult result);
  void Repeat(std::vector<JobPtr> jobs, const absl::Status& status);
  // Doubles from `first` with every failure up to `most`, less a random half.
  absl::Duration Backoff(int failures, absl::Duration first,
                         absl::Duration most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayTakeQuarantined(SteadyTime now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The watchdog. Jobs to refuse are collected under the mutex and refused
  // outside, because an answer may lead straight to the next Submit().
  using Refusals = std::vector<std::pair<JobPtr, Reason>>;
  void RunWatchdog();
  Refusals WatchQueue(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Refusals WatchWorkers(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StoreIsDown() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Executor executor_;

  absl::Mutex mutex_;
  absl::CondVar work_arrived_;
  absl::CondVar watch_needed_;
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  int connected_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the last connection was lost.
  SteadyTime down_since_ ABSL_GUARDED_BY(mutex_);
  // A call has waited in vain for as long as any does: those after it are told
  // at once.
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::BitGen random_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Worker>> workers_;
  std::thread watchdog_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_BATCHER_H_
