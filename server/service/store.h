// What the rules need from storage. The in-memory model of the tests and
// PostgresStore fulfil the same contract (tests/store/store_contract.h).
#ifndef DEDUPE_SERVER_SERVICE_STORE_H_
#define DEDUPE_SERVER_SERVICE_STORE_H_

#include <atomic>
#include <chrono>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service/access.h"
#include "server/service/record.h"

namespace dedupe {

// Deadlines are counted on a clock that is never set.
using SteadyTime = std::chrono::steady_clock::time_point;

// How long a call is worth working on.
class CallScope {
 public:
  explicit CallScope(SteadyTime deadline)
      : deadline_(deadline),
        cancelled_(std::make_shared<std::atomic<bool>>(false)) {}

  SteadyTime deadline() const { return deadline_; }
  // From any thread. Copies of a scope share it.
  void Cancel() { cancelled_->store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_->load(std::memory_order_relaxed); }

 private:
  SteadyTime deadline_;
  std::shared_ptr<std::atomic<bool>> cancelled_;
};

// Called exactly once, on a thread of the store's or within the call itself; it
// must not block.
template <typename Answer>
using Callback = absl::AnyInvocable<void(absl::StatusOr<Answer>) &&>;

// Only the state of a record, without its response: for watching it.
struct WatchCommand {
  RecordId id;
};

struct ReapCommand {
  int row_limit = 0;
  // The latest reading of the database's clock that is believable: past it
  // nothing is deleted. Unset trusts the clock.
  std::optional<absl::Time> latest;
};

struct ReapAnswer {
  int examined = 0;
  int deleted = 0;
  // How long the oldest of the examined had been due.
  absl::Duration lag;
  bool clock_refused = false;
  absl::Time decided_at;
};

struct ProbeCommand {};

struct ProbeAnswer {
  // The newest migration of the database, and the oldest server, by the newest
  // migration that it knows, which that one still allows.
  int schema_version = 0;
  int compatible_from = 0;
  absl::Time decided_at;
};

// Thread-safe. Fields have been checked against limits.h by the caller.
//
// Every call may end in STORE_DOWN, DEADLINE_EXCEEDED or CANCELLED, which leave
// its outcome open; in OVERLOADED, RECORD_DAMAGED or STORE_BROKEN, which do
// not; or in the refusals named beside it. Each decides on one reading of the
// database's clock, and a repetition with the same arguments changes nothing
// more.
class Store {
 public:
  virtual ~Store() = default;

  // ATTEMPT_FINISHED. Anything else is an outcome.
  virtual void Begin(BeginCommand command, CallScope scope,
                     Callback<BeginAnswer> done) = 0;
  // KEY_UNKNOWN, LEASE_LOST, RESPONSE_CONFLICT.
  virtual void Complete(CompleteCommand command, CallScope scope,
                        Callback<CompleteAnswer> done) = 0;
  // KEY_UNKNOWN, LEASE_LOST, ALREADY_COMPLETED.
  virtual void Extend(ExtendCommand command, CallScope scope,
                      Callback<ExtendAnswer> done) = 0;
  // KEY_UNKNOWN, LEASE_LOST, ALREADY_COMPLETED.
  virtual void Release(ReleaseCommand command, CallScope scope,
                       Callback<ReleaseAnswer> done) = 0;
  virtual void Lookup(LookupCommand command, CallScope scope,
                      Callback<LookupAnswer> done) = 0;

  // As Lookup, but `response` stays unset.
  virtual void Watch(WatchCommand command, CallScope scope,
                     Callback<LookupAnswer> done) = 0;
  // Deletes expired records, at most row_limit.
  virtual void Reap(ReapCommand command, CallScope scope,
                    Callback<ReapAnswer> done) = 0;
  // Succeeds only if the database can be written to.
  virtual void Probe(ProbeCommand command, CallScope scope,
                     Callback<ProbeAnswer> done) = 0;
  // Who may touch what, unless the asker knows it. RECORD_DAMAGED: what is
  // stored cannot be read, and no part of it is given.
  virtual void LoadAccess(AccessCommand command, CallScope scope,
                          Callback<AccessAnswer> done) = 0;
  // Counts records, at most row_limit (1 to 100,000).
  virtual void MeasureUsage(UsageCommand command, CallScope scope,
                            Callback<UsageAnswer> done) = 0;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_STORE_H_
