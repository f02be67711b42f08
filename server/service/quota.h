// How much of its quotas one principal has used up, as far as this server
// knows.
#ifndef DEDUPE_SERVER_SERVICE_QUOTA_H_
#define DEDUPE_SERVER_SERVICE_QUOTA_H_

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/service/access.h"
#include "server/service/store.h"

namespace dedupe {

// Thread-safe. The quota is given with each question, because it may change
// while what is used up stays.
class QuotaUse {
 public:
  // Counts a call in, for Leave() to count out. QUOTA, naming calls_in_flight
  // or calls_per_second; then there is nothing to leave. A second's calls may
  // come all at once.
  absl::Status Enter(const Quota& quota, SteadyTime now);
  void Leave();

  // OK: a Begin may make a new record, and is counted as if it did until
  // FinishBegin(), so that any number at once do not pass the quota. QUOTA,
  // naming live_keys or stored_bytes; then there is nothing to finish.
  absl::Status StartBegin(const Quota& quota);
  enum class Outcome { kNewRecord, kNone };
  void FinishBegin(Outcome outcome);
  // This server has stored so many bytes in a record.
  void AddStoredBytes(int64_t bytes);

  // What was counted in the database since StartMeasurement(). What this server
  // has added meanwhile counts on top: some of it twice, until the next time.
  struct Measurement {
    int64_t live_keys = 0;
    int64_t stored_bytes = 0;
  };
  void StartMeasurement();
  void FinishMeasurement(const Measurement& measured);

 private:
  mutable absl::Mutex mutex_;
  int64_t calls_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // Calls that may still come in this second, at that time; unset before the
  // first.
  std::optional<double> calls_left_ ABSL_GUARDED_BY(mutex_);
  SteadyTime calls_left_at_ ABSL_GUARDED_BY(mutex_);
  // Under way, of which each may make a record.
  int64_t begins_ ABSL_GUARDED_BY(mutex_) = 0;
  Measurement measured_ ABSL_GUARDED_BY(mutex_);
  Measurement added_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_QUOTA_H_
