// A store's calls for threads that may wait, with a time limit that only a
// store that has lost a call would reach.
#ifndef DEDUPE_TESTS_STORE_BLOCKING_STORE_H_
#define DEDUPE_TESTS_STORE_BLOCKING_STORE_H_

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service/await.h"
#include "server/service/store.h"
#include "tests/support/builders.h"

namespace dedupe::testing {

// Thread-safe if the store is.
class BlockingStore {
 public:
  explicit BlockingStore(Store& store, absl::Duration limit = absl::Seconds(20))
      : store_(store), limit_(limit) {}

  absl::StatusOr<BeginAnswer> Begin(BeginCommand command) {
    return Ask(&Store::Begin, std::move(command));
  }
  absl::StatusOr<CompleteAnswer> Complete(CompleteCommand command) {
    return Ask(&Store::Complete, std::move(command));
  }
  absl::StatusOr<ExtendAnswer> Extend(ExtendCommand command) {
    return Ask(&Store::Extend, std::move(command));
  }
  absl::StatusOr<ReleaseAnswer> Release(ReleaseCommand command) {
    return Ask(&Store::Release, std::move(command));
  }
  absl::StatusOr<LookupAnswer> Lookup(RecordId id) {
    return Ask(&Store::Lookup, LookupCommand{std::move(id)});
  }
  absl::StatusOr<LookupAnswer> Watch(RecordId id) {
    return Ask(&Store::Watch, WatchCommand{std::move(id)});
  }
  absl::StatusOr<ReapAnswer> Reap(ReapCommand command) {
    return Ask(&Store::Reap, command);
  }
  absl::StatusOr<ProbeAnswer> Probe() {
    return Ask(&Store::Probe, ProbeCommand{});
  }
  absl::StatusOr<AccessAnswer> LoadAccess(AccessCommand command) {
    return Ask(&Store::LoadAccess, std::move(command));
  }
  absl::StatusOr<UsageAnswer> MeasureUsage(UsageCommand command) {
    return Ask(&Store::MeasureUsage, std::move(command));
  }

 private:
  template <typename Command, typename Answer>
  absl::StatusOr<Answer> Ask(void (Store::*method)(Command, CallScope,
                                                   Callback<Answer>),
                             Command command) {
    return Await(store_, method, std::move(command), Within(limit_));
  }

  Store& store_;
  const absl::Duration limit_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_STORE_BLOCKING_STORE_H_
