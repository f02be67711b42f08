// Calls in flight, and when each of them was answered with what.
#ifndef DEDUPE_TESTS_STORE_TIMED_CALLS_H_
#define DEDUPE_TESTS_STORE_TIMED_CALLS_H_

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/reason.h"
#include "server/service/store.h"
#include "tests/support/builders.h"

namespace dedupe::testing {

// A call ends by its deadline and 100 ms at the latest, so the contract; the
// rest is for a machine that is busy with other things.
inline constexpr absl::Duration kLateness = absl::Milliseconds(350);

// Thread-safe. May be destroyed before all are answered.
class TimedCalls {
 public:
  void Begin(Store& store, BeginCommand command, absl::Duration limit,
             const std::optional<CallScope>& scope = std::nullopt) {
    store.Begin(std::move(command), scope.value_or(Within(limit)),
                Noting<BeginAnswer>(limit));
  }
  void Complete(Store& store, CompleteCommand command, absl::Duration limit) {
    store.Complete(std::move(command), Within(limit),
                   Noting<CompleteAnswer>(limit));
  }

  int open() const {
    absl::MutexLock lock(&notes_->mutex);
    return notes_->open;
  }
  // Until all are answered.
  void Wait() const {
    absl::MutexLock lock(&notes_->mutex);
    notes_->mutex.Await(absl::Condition(
        +[](int* open) { return *open == 0; }, &notes_->open));
  }
  // kUnknown: not refused.
  std::vector<Reason> reasons() const {
    absl::MutexLock lock(&notes_->mutex);
    return notes_->reasons;
  }
  // How long after its deadline the latest answer came; below zero: before.
  absl::Duration latest() const {
    absl::MutexLock lock(&notes_->mutex);
    return notes_->latest;
  }
  absl::Duration longest() const {
    absl::MutexLock lock(&notes_->mutex);
    return notes_->longest;
  }

 private:
  struct Notes {
    mutable absl::Mutex mutex;
    int open ABSL_GUARDED_BY(mutex) = 0;
    std::vector<Reason> reasons ABSL_GUARDED_BY(mutex);
    absl::Duration latest ABSL_GUARDED_BY(mutex) = -absl::InfiniteDuration();
    absl::Duration longest ABSL_GUARDED_BY(mutex);
  };

  template <typename Answer>
  Callback<Answer> Noting(absl::Duration limit) {
    absl::MutexLock lock(&notes_->mutex);
    ++notes_->open;
    return [notes = notes_, limit, start = std::chrono::steady_clock::now()](
               absl::StatusOr<Answer> answer) {
      const absl::Duration taken =
          absl::FromChrono(std::chrono::steady_clock::now() - start);
      absl::MutexLock noting(&notes->mutex);
      --notes->open;
      notes->reasons.push_back(ReasonOf(answer.status()));
      notes->latest = std::max(notes->latest, taken - limit);
      notes->longest = std::max(notes->longest, taken);
    };
  }

  std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_STORE_TIMED_CALLS_H_
