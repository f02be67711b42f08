// For threads of our own that may block: asks the store and waits.
#ifndef DEDUPE_SERVER_SERVICE_AWAIT_H_
#define DEDUPE_SERVER_SERVICE_AWAIT_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "server/service/store.h"

namespace dedupe {

// Calls `method` of the store and returns its answer. The store answers by the
// scope's deadline, so this does not wait for ever.
template <typename Command, typename Answer>
absl::StatusOr<Answer> Await(Store& store,
                             void (Store::*method)(Command, CallScope,
                                                   Callback<Answer>),
                             Command command, CallScope scope) {
  absl::Notification answered;
  absl::StatusOr<Answer> result = absl::UnknownError("not answered");
  (store.*method)(std::move(command), std::move(scope),
                  [&](absl::StatusOr<Answer> answer) {
                    result = std::move(answer);
                    answered.Notify();
                  });
  answered.WaitForNotification();
  return result;
}

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_AWAIT_H_
