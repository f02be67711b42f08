// What one sending of a call came to: the rule of what may be repeated.
#ifndef DEDUPE_CLIENT_SRC_VERDICT_H_
#define DEDUPE_CLIENT_SRC_VERDICT_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace dedupe::client {

struct Verdict {
  enum class Kind {
    kAnswered,
    // Definite: nothing was changed, and repeating is of no use.
    kRefused,
    // Definite: nothing was changed; repeat later.
    kTurnedAway,
    // It may have been done or not; repeat with the same arguments.
    kOpen,
  };
  Kind kind = Kind::kAnswered;
  // Unless answered. Bears the reason, see ReasonOf.
  absl::Status status;
  // At least this long before the next sending.
  absl::Duration retry_delay = absl::ZeroDuration();
};

Verdict Judge(const grpc::Status& status);

// The reason of dedupe.proto, as ReasonOf finds it.
absl::Status WithReason(absl::Status status, const std::string& reason);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_VERDICT_H_
