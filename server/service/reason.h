// Why a call is refused. A refusal travels as an absl::Status that carries its
// Reason; rpc_status.h turns it into what goes over the wire.
#ifndef DEDUPE_SERVER_SERVICE_REASON_H_
#define DEDUPE_SERVER_SERVICE_REASON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dedupe {

// What each means to a caller stands at the head of dedupe.proto.
enum class Reason {
  // Also of a status that carries none.
  kUnknown,
  kMessageMalformed,
  kClientIdEmpty,
  kClientIdTooLong,
  kClientIdCharacters,
  kKeyEmpty,
  kKeyTooLong,
  kKeyCharacters,
  kOperationTooLong,
  kOperationCharacters,
  kFingerprintEmpty,
  kFingerprintTooLong,
  kAttemptIdEmpty,
  kAttemptIdTooLong,
  kAttemptIdCharacters,
  kLeaseRange,
  kLeaseMalformed,
  kTtlRange,
  kTtlMalformed,
  kWaitRange,
  kWaitMalformed,
  kOnLeaseExpiryUnknown,
  kFenceRange,
  kResponseMissing,
  kResponseTooLarge,
  kHeadersTooMany,
  kHeadersTooLarge,
  kHeaderNameEmpty,
  kHeaderNameCharacters,
  kHeaderValueCharacters,
  kBodyNotOmitted,
  kCheckpointTooLarge,
  kCredentialsRefused,
  kPeerUnknown,
  kMethodForbidden,
  kClientIdForbidden,
  kLeaseLost,
  kResponseConflict,
  kAlreadyCompleted,
  kAttemptFinished,
  kKeyUnknown,
  kOverloaded,
  kQuota,
  kStoreDown,
  kDraining,
  kDeadlineExceeded,
  kCancelled,
  kRecordDamaged,
  kStoreBroken,
};

// A status with the reason's code and its fixed sentence, which names no key,
// no payload and no SQL. field: the path of the request's field at fault, for
// the reasons of INVALID_ARGUMENT; the name of the quota, for kQuota.
absl::Status Refusal(Reason reason, absl::string_view field = "");

// What Refusal() was given; kUnknown and "" for any other status.
Reason ReasonOf(const absl::Status& status);
std::string FieldOf(const absl::Status& status);

// How long to wait before a repetition has a chance; zero if it has none, now
// or later.
absl::Duration RetryDelayOf(Reason reason);

// As it goes over the wire, such as "LEASE_LOST"; "" for kUnknown and for the
// reasons that are gRPC's own codes.
absl::string_view ReasonName(Reason reason);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_REASON_H_
