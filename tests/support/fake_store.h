// A Store whose answers a test decides, one by one or by a rule.
#ifndef DEDUPE_TESTS_SUPPORT_FAKE_STORE_H_
#define DEDUPE_TESTS_SUPPORT_FAKE_STORE_H_

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/store.h"

namespace dedupe::testing {

// All calls of one verb. Thread-safe.
template <typename Command, typename Answer>
class Desk {
 public:
  struct Call {
    Command command;
    CallScope scope;
    Callback<Answer> done;
    SteadyTime arrived_at;

    void Finish(absl::StatusOr<Answer> answer) {
      std::move(done)(std::move(answer));
    }
  };
  using Rule = std::function<absl::StatusOr<Answer>(const Command&)>;

  // From now on every call is answered by the rule, within the call itself;
  // those that wait are too. Without a rule calls wait for Take(). The rule
  // must not use this desk.
  void AnswerBy(Rule rule) {
    std::deque<Call> waiting;
    {
      absl::MutexLock lock(&mutex_);
      rule_ = rule;
      if (rule != nullptr) waiting.swap(waiting_);
    }
    for (Call& call : waiting) call.Finish(rule(call.command));
  }

  // The oldest call that waits for an answer, which is then the test's to give.
  // Waits for one to come; a test that waits in vain ends the program.
  Call Take() {
    absl::MutexLock lock(&mutex_);
    const auto has_call = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !waiting_.empty();
    };
    AwaitOrDie(absl::Condition(&has_call));
    Call call = std::move(waiting_.front());
    waiting_.pop_front();
    return call;
  }

  // Whether a call comes within that time.
  bool WaitForCall(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    const auto has_call = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !waiting_.empty();
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&has_call), limit);
  }

  // Returns when so many calls have come since the beginning.
  void WaitForCount(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return commands_.size() >= count;
    };
    AwaitOrDie(absl::Condition(&enough));
  }

  size_t count() const {
    absl::MutexLock lock(&mutex_);
    return commands_.size();
  }
  // Of all calls since the beginning.
  std::vector<Command> commands() const {
    absl::MutexLock lock(&mutex_);
    return commands_;
  }

  void Receive(Command command, CallScope scope, Callback<Answer> done) {
    Rule rule;
    {
      absl::MutexLock lock(&mutex_);
      commands_.push_back(command);
      rule = rule_;
      if (rule == nullptr) {
        waiting_.push_back({std::move(command), std::move(scope),
                            std::move(done), std::chrono::steady_clock::now()});
        return;
      }
    }
    std::move(done)(rule(command));
  }

 private:
  void AwaitOrDie(const absl::Condition& condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  Rule rule_ ABSL_GUARDED_BY(mutex_);
  std::deque<Call> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
};

// Ends the program with a message if the condition is not true within a time
// that no healthy test needs.
void AwaitConditionOrDie(absl::Mutex& mutex, const absl::Condition& condition)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

template <typename Command, typename Answer>
void Desk<Command, Answer>::AwaitOrDie(const absl::Condition& condition) {
  AwaitConditionOrDie(mutex_, condition);
}

class FakeStore final : public Store {
 public:
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
  void LoadAccess(AccessCommand command, CallScope scope,
                  Callback<AccessAnswer> done) override;
  void MeasureUsage(UsageCommand command, CallScope scope,
                    Callback<UsageAnswer> done) override;

  // How many calls have come, of all verbs.
  size_t calls() const;

  Desk<BeginCommand, BeginAnswer> begins;
  Desk<CompleteCommand, CompleteAnswer> completes;
  Desk<ExtendCommand, ExtendAnswer> extends;
  Desk<ReleaseCommand, ReleaseAnswer> releases;
  Desk<LookupCommand, LookupAnswer> lookups;
  Desk<WatchCommand, LookupAnswer> watches;
  Desk<ReapCommand, ReapAnswer> reaps;
  Desk<ProbeCommand, ProbeAnswer> probes;
  Desk<AccessCommand, AccessAnswer> accesses;
  Desk<UsageCommand, UsageAnswer> usages;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_FAKE_STORE_H_
