// Deletes expired records: in small batches, never faster than it sleeps, and
// not while the database's clock is not to be believed.
#ifndef DEDUPE_SERVER_SERVICE_REAPER_H_
#define DEDUPE_SERVER_SERVICE_REAPER_H_

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "server/service/store.h"

namespace dedupe {

// Judges the database's clock by the steady clock of this process: one that has
// advanced by more than twice the time that has really passed, and a minute, is
// not believed, because a jump ahead would delete what is still needed.
class ClockGuard {
 public:
  // The latest reading that is believable; nothing before the first Observe().
  std::optional<absl::Time> Latest(SteadyTime now) const;
  void Observe(absl::Time database_time, SteadyTime now);

 private:
  std::optional<absl::Time> database_time_;
  SteadyTime observed_at_;
};

class Reaper {
 public:
  struct Options {
    absl::Duration interval;
    int batch_rows_max = 0;
    // After a jump of the clock nothing is deleted for so long, in which
    // somebody can look; then the new time is taken for the true one.
    absl::Duration distrust = absl::Minutes(10);
  };

  // Starts at once. The store must outlive it.
  Reaper(Store& store, Options options);
  ~Reaper();

  // Returns when the batch under way is done. Idempotent.
  void Stop();

 private:
  void Run();
  // True if there is more to do.
  bool ReapOnce(ClockGuard& guard);
  void Sleep(absl::Duration duration) const;

  Store& store_;
  const Options options_;
  std::atomic<bool> stopping_{false};
  SteadyTime distrust_until_ = SteadyTime::min();
  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_REAPER_H_
