// The calls: what is asked is checked against the bounds, and a Begin may wait
// for another attempt to finish. Everything else is the store's.
#ifndef DEDUPE_SERVER_SERVICE_DEDUPE_SERVICE_H_
#define DEDUPE_SERVER_SERVICE_DEDUPE_SERVICE_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "server/service/record.h"
#include "server/service/store.h"
#include "server/service/waiters.h"

namespace dedupe {

// Thread-safe. Errors are those of Store, and INVALID_ARGUMENT of validation.h,
// before anything is asked of the store.
class DedupeService {
 public:
  // The store must outlive it.
  DedupeService(Store& store, size_t waiters_max);

  struct BeginOptions {
    // How long an answer `in_progress` may be put off, in the hope of a better
    // one; less where the deadline asks for it.
    std::optional<absl::Duration> wait = {};
    // OK, or what a Begin of a key without a record is refused with.
    absl::Status may_create = {};
  };
  void Begin(BeginCommand command, BeginOptions options, CallScope scope,
             Callback<BeginAnswer> done);
  void Complete(CompleteCommand command, CallScope scope,
                Callback<CompleteAnswer> done);
  void Extend(ExtendCommand command, CallScope scope,
              Callback<ExtendAnswer> done);
  void Release(ReleaseCommand command, CallScope scope,
               Callback<ReleaseAnswer> done);
  void Lookup(LookupCommand command, CallScope scope,
              Callback<LookupAnswer> done);

  // Nobody waits any longer: who did gets the answer of this moment.
  void StopWaiting() { waiters_.Stop(); }

 private:
  struct WaitingBegin;

  void BeginOrWait(BeginCommand command, std::optional<absl::Duration> wait,
                   CallScope scope, Callback<BeginAnswer> done);
  void Ask(const std::shared_ptr<WaitingBegin>& call, Waiters::Place place);

  Store& store_;
  Waiters waiters_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_DEDUPE_SERVICE_H_
