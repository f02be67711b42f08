// One call on its way through the batcher.
#ifndef DEDUPE_SERVER_STORE_JOB_H_
#define DEDUPE_SERVER_STORE_JOB_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/service/record.h"
#include "server/service/store.h"

namespace dedupe {

// What a batch does: all its jobs do the same.
enum class Verb {
  kBegin,
  kComplete,
  kExtend,
  kRelease,
  kLookup,
  kWatch,
  kReap,
  kProbe,
  kAccess,
  kUsage,
};
inline constexpr size_t kVerbs = static_cast<size_t>(Verb::kUsage) + 1;

class Job {
 public:
  Job(Verb what, RecordId about, CallScope until, size_t size)
      : verb(what),
        id(std::move(about)),
        scope(std::move(until)),
        bytes(size) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Answers with an error. Of all answers the first counts: a deadline may pass
  // while the database is still at work.
  virtual void Refuse(absl::Status status) = 0;
  bool answered() const { return answered_.load(std::memory_order_acquire); }

  const Verb verb;
  // Jobs of one id never share a batch.
  const RecordId id;
  const CallScope scope;
  // About how much memory it holds.
  const size_t bytes;

  // The queue's own notes, guarded by its owner.
  SteadyTime queued_at;
  // Not to be run before, after it met a lock.
  SteadyTime not_before;
  // How many jobs at most may run with it, itself included; 0: as many as the
  // batcher likes. Shrinks when a batch with it fails.
  size_t company_max = 0;
  int failures = 0;
  // It was sent before, and nobody knows whether it took effect. Written and
  // read by the thread that runs it.
  bool in_doubt = false;

 protected:
  // True for the first caller only.
  bool TakeAnswer() {
    return !answered_.exchange(true, std::memory_order_acq_rel);
  }

 private:
  std::atomic<bool> answered_{false};
};

using JobPtr = std::shared_ptr<Job>;

template <Verb kVerb, typename CommandType, typename AnswerType>
class TypedJob final : public Job {
 public:
  using Command = CommandType;
  using Answer = AnswerType;

  TypedJob(RecordId about, Command command, CallScope until, size_t size,
           Callback<Answer> done)
      : Job(kVerb, std::move(about), std::move(until), size),
        command_(std::move(command)),
        done_(std::move(done)) {}

  const Command& command() const { return command_; }

  void Finish(absl::StatusOr<Answer> answer) {
    if (TakeAnswer()) std::move(done_)(std::move(answer));
  }
  void Refuse(absl::Status status) override { Finish(std::move(status)); }

 private:
  const Command command_;
  Callback<Answer> done_;
};

using BeginJob = TypedJob<Verb::kBegin, BeginCommand, BeginAnswer>;
using CompleteJob = TypedJob<Verb::kComplete, CompleteCommand, CompleteAnswer>;
using ExtendJob = TypedJob<Verb::kExtend, ExtendCommand, ExtendAnswer>;
using ReleaseJob = TypedJob<Verb::kRelease, ReleaseCommand, ReleaseAnswer>;
using LookupJob = TypedJob<Verb::kLookup, LookupCommand, LookupAnswer>;
using WatchJob = TypedJob<Verb::kWatch, WatchCommand, LookupAnswer>;
using ReapJob = TypedJob<Verb::kReap, ReapCommand, ReapAnswer>;
using ProbeJob = TypedJob<Verb::kProbe, ProbeCommand, ProbeAnswer>;
using AccessJob = TypedJob<Verb::kAccess, AccessCommand, AccessAnswer>;
using UsageJob = TypedJob<Verb::kUsage, UsageCommand, UsageAnswer>;

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_JOB_H_
