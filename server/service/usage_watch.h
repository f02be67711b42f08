// Counts, again and again, what the records of principals with a quota for keys
// or bytes amount to.
#ifndef DEDUPE_SERVER_SERVICE_USAGE_WATCH_H_
#define DEDUPE_SERVER_SERVICE_USAGE_WATCH_H_

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service/access_watch.h"

namespace dedupe {

class UsageWatch {
 public:
  // Asks the database; blocks.
  using Measure = std::function<absl::StatusOr<UsageAnswer>(UsageCommand)>;
  struct Options {
    // Between two countings; more after one that took long, so that counting
    // takes a twentieth of one connection's time at most.
    absl::Duration interval = absl::Seconds(2);
    // Rows of one statement: some tens of milliseconds.
    int row_limit = 20'000;
  };

  // Starts at once. The access list must outlive it.
  UsageWatch(const AccessWatch& access, Measure measure, Options options);
  // As Stop().
  ~UsageWatch();
  // Idempotent.
  void Stop();

 private:
  void Run();
  void MeasureCaller(const Caller& caller);
  // Nothing if it could not be counted.
  std::optional<QuotaUse::Measurement> CountPattern(const std::string& pattern);
  void Sleep(absl::Duration duration) const;

  const AccessWatch& access_;
  const Measure measure_;
  const Options options_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_USAGE_WATCH_H_
