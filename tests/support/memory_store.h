// A second implementation of the contract of store.h, in memory and as plain as
// can be: written from the contract, not from the SQL, so that the two can be
// held against each other.
#ifndef DEDUPE_TESTS_SUPPORT_MEMORY_STORE_H_
#define DEDUPE_TESTS_SUPPORT_MEMORY_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/reason.h"
#include "server/service/store.h"

namespace dedupe::testing {

// Thread-safe. Answers within the call, whatever its scope says, unless it was
// told to fail. The clock must not call back into the store.
class MemoryStore final : public Store {
 public:
  // Read once for each call.
  using Clock = std::function<absl::Time()>;

  explicit MemoryStore(Clock clock) : clock_(std::move(clock)) {}

  // From now on every call is refused with this reason and changes nothing;
  // nullopt ends that.
  void Fail(std::optional<Reason> reason);

  // From now on this is who may touch what; its version grows.
  void SetAccess(AccessList list);

  void Begin(BeginCommand command, CallScope scope,
             Callback<BeginAnswer> done) override;
  void Complete(CompleteCommand command, CallScope scope,
                Callback<CompleteAnswer> done) override;
  void Extend(ExtendCommand command, CallScope scope,
              Callback<ExtendAnswer> done) override;
  void Release(ReleaseCommand command, CallScope scope,
               Callback<ReleaseAnswer> done) override;
  void Lookup(LookupCommand command, CallScope scope,
              Callback<LookupAnswer> done) override;
  void Watch(WatchCommand command, CallScope scope,
             Callback<LookupAnswer> done) override;
  void Reap(ReapCommand command, CallScope scope,
            Callback<ReapAnswer> done) override;
  void Probe(ProbeCommand command, CallScope scope,
             Callback<ProbeAnswer> done) override;
  // The list that SetAccess() gave, or an empty one.
  void LoadAccess(AccessCommand command, CallScope scope,
                  Callback<AccessAnswer> done) override;
  void MeasureUsage(UsageCommand command, CallScope scope,
                    Callback<UsageAnswer> done) override;

 private:
  enum class State { kRunning, kReleased, kCompleted };

  struct Record {
    State state = State::kRunning;
    // What the key is bound to; nothing after a Release that unbound it.
    std::optional<std::string> fingerprint;
    std::string operation;
    // Of the present or last holder.
    std::string attempt_id;
    int64_t fence = 0;
    int32_t attempt_number = 0;
    absl::Time started_at;
    absl::Time lease_end;
    absl::Duration ttl;
    OnLeaseExpiry policy = OnLeaseExpiry::kTakeover;

    absl::Time first_seen_at;
    bool taken_over = false;
    std::string checkpoint;
    // Attempts that released, newest last.
    std::deque<std::string> finished;
    absl::Time released_at;
    absl::Time completed_at = absl::InfinitePast();
    Response response;

    // Nothing: it does not end.
    std::optional<absl::Time> End() const;
    bool LiveAt(absl::Time now) const;
    absl::Time NotBefore(absl::Time now) const;
    bool Finished(const std::string& attempt) const;
    // Of response, headers and checkpoint, as the database stores them.
    int64_t StoredBytes() const;
  };

  absl::StatusOr<BeginAnswer> Decide(const BeginCommand& command,
                                     absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<CompleteAnswer> Decide(const CompleteCommand& command,
                                        absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ExtendAnswer> Decide(const ExtendCommand& command,
                                      absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ReleaseAnswer> Decide(const ReleaseCommand& command,
                                       absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<LookupAnswer> Decide(const LookupCommand& command,
                                      absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<LookupAnswer> Decide(const WatchCommand& command,
                                      absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ReapAnswer> Decide(const ReapCommand& command, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ProbeAnswer> Decide(const ProbeCommand& command,
                                     absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<AccessAnswer> Decide(const AccessCommand& command,
                                      absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<UsageAnswer> Decide(const UsageCommand& command,
                                     absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Makes the command's attempt the holder of a record, or renews its lease.
  BeginAnswer Start(Record& record, const BeginCommand& command, absl::Time now,
                    bool resumed);
  // The live record if the holder is its present or last one, else why not.
  absl::StatusOr<Record*> FindHeld(const RecordId& id, const Holder& holder,
                                   absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  template <typename Command, typename Answer>
  void Serve(const Command& command, Callback<Answer> done);

  const Clock clock_;
  absl::Mutex mutex_;
  std::map<RecordId, Record> records_ ABSL_GUARDED_BY(mutex_);
  std::optional<Reason> failure_ ABSL_GUARDED_BY(mutex_);
  AccessList access_ ABSL_GUARDED_BY(mutex_);
  int64_t access_version_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_MEMORY_STORE_H_
