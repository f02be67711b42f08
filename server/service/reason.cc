#include "server/service/reason.h"

#include <iterator>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/service/limits.h"

namespace dedupe {
namespace {

struct Row {
  Reason reason;
  absl::string_view name;
  absl::StatusCode code;
  absl::string_view sentence;
};

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

// In the order of the enumeration, so that a reason is its row's number.
constexpr Row kRows[] = {
    {Reason::kUnknown, "", absl::StatusCode::kUnknown, "unknown"},
    {Reason::kMessageMalformed, "MESSAGE_MALFORMED", kInvalid,
     "the request is not the expected message, or a string is not UTF-8"},
    {Reason::kClientIdEmpty, "CLIENT_ID_EMPTY", kInvalid,
     "client_id is required"},
    {Reason::kClientIdTooLong, "CLIENT_ID_TOO_LONG", kInvalid,
     "client_id is longer than 255 bytes"},
    {Reason::kClientIdCharacters, "CLIENT_ID_CHARACTERS", kInvalid,
     "client_id holds a control character"},
    {Reason::kKeyEmpty, "KEY_EMPTY", kInvalid, "key is required"},
    {Reason::kKeyTooLong, "KEY_TOO_LONG", kInvalid,
     "key is longer than 255 bytes"},
    {Reason::kKeyCharacters, "KEY_CHARACTERS", kInvalid,
     "key holds a control character"},
    {Reason::kOperationTooLong, "OPERATION_TOO_LONG", kInvalid,
     "operation is longer than 128 bytes"},
    {Reason::kOperationCharacters, "OPERATION_CHARACTERS", kInvalid,
     "operation holds a control character"},
    {Reason::kFingerprintEmpty, "FINGERPRINT_EMPTY", kInvalid,
     "fingerprint is required"},
    {Reason::kFingerprintTooLong, "FINGERPRINT_TOO_LONG", kInvalid,
     "fingerprint is longer than 64 bytes"},
    {Reason::kAttemptIdEmpty, "ATTEMPT_ID_EMPTY", kInvalid,
     "attempt_id is required"},
    {Reason::kAttemptIdTooLong, "ATTEMPT_ID_TOO_LONG", kInvalid,
     "attempt_id is longer than 64 bytes"},
    {Reason::kAttemptIdCharacters, "ATTEMPT_ID_CHARACTERS", kInvalid,
     "attempt_id holds a control character"},
    {Reason::kLeaseRange, "LEASE_RANGE", kInvalid,
     "lease is not between 100 ms and 15 min"},
    {Reason::kLeaseMalformed, "LEASE_MALFORMED", kInvalid,
     "lease is not a well-formed duration"},
    {Reason::kTtlRange, "TTL_RANGE", kInvalid,
     "ttl is not between 100 ms and 31 days"},
    {Reason::kTtlMalformed, "TTL_MALFORMED", kInvalid,
     "ttl is not a well-formed duration"},
    {Reason::kWaitRange, "WAIT_RANGE", kInvalid,
     "wait is not above 0 and at most 30 s"},
    {Reason::kWaitMalformed, "WAIT_MALFORMED", kInvalid,
     "wait is not a well-formed duration"},
    {Reason::kOnLeaseExpiryUnknown, "ON_LEASE_EXPIRY_UNKNOWN", kInvalid,
     "on_lease_expiry is none of the known values"},
    {Reason::kFenceRange, "FENCE_RANGE", kInvalid,
     "fence is not greater than zero"},
    {Reason::kResponseMissing, "RESPONSE_MISSING", kInvalid,
     "response is required"},
    {Reason::kResponseTooLarge, "RESPONSE_TOO_LARGE", kInvalid,
     "the body is larger than 256 KiB; complete with body_omitted"},
    {Reason::kHeadersTooMany, "HEADERS_TOO_MANY", kInvalid,
     "there are more than 64 headers"},
    {Reason::kHeadersTooLarge, "HEADERS_TOO_LARGE", kInvalid,
     "the headers are together larger than 16 KiB"},
    {Reason::kHeaderNameEmpty, "HEADER_NAME_EMPTY", kInvalid,
     "a header has no name"},
    {Reason::kHeaderNameCharacters, "HEADER_NAME_CHARACTERS", kInvalid,
     "a header's name holds a control character"},
    {Reason::kHeaderValueCharacters, "HEADER_VALUE_CHARACTERS", kInvalid,
     "a header's value holds a control character"},
    {Reason::kBodyNotOmitted, "BODY_NOT_OMITTED", kInvalid,
     "body_omitted is set and there is a body"},
    {Reason::kCheckpointTooLarge, "CHECKPOINT_TOO_LARGE", kInvalid,
     "checkpoint is larger than 4 KiB"},
    {Reason::kCredentialsRefused, "CREDENTIALS_REFUSED",
     absl::StatusCode::kUnauthenticated,
     "the credentials are missing, wrong or no longer valid"},
    {Reason::kPeerUnknown, "PEER_UNKNOWN", kDenied,
     "the certificate belongs to no principal"},
    {Reason::kMethodForbidden, "METHOD_FORBIDDEN", kDenied,
     "the principal's role does not include this method"},
    {Reason::kClientIdForbidden, "CLIENT_ID_FORBIDDEN", kDenied,
     "the principal may not use this client_id"},
    {Reason::kLeaseLost, "LEASE_LOST", kPrecondition,
     "another attempt holds this key, or it was released"},
    {Reason::kResponseConflict, "RESPONSE_CONFLICT", kPrecondition,
     "this attempt has stored another response"},
    {Reason::kAlreadyCompleted, "ALREADY_COMPLETED", kPrecondition,
     "this attempt has completed"},
    {Reason::kAttemptFinished, "ATTEMPT_FINISHED", kPrecondition,
     "this attempt has released the key; mint a new attempt_id"},
    {Reason::kKeyUnknown, "KEY_UNKNOWN", absl::StatusCode::kNotFound,
     "no record of this key, or it is past its window"},
    {Reason::kOverloaded, "OVERLOADED", absl::StatusCode::kResourceExhausted,
     "too many calls are queued or in flight; try again later"},
    {Reason::kQuota, "QUOTA", absl::StatusCode::kResourceExhausted,
     "a quota of the principal is used up; try again later"},
    {Reason::kStoreDown, "STORE_DOWN", absl::StatusCode::kUnavailable,
     "the database does not answer; the outcome is unknown, repeat the call"},
    {Reason::kDraining, "DRAINING", absl::StatusCode::kUnavailable,
     "this server is shutting down; repeat the call elsewhere"},
    {Reason::kDeadlineExceeded, "", absl::StatusCode::kDeadlineExceeded,
     "the deadline passed; the outcome is unknown, repeat the call"},
    {Reason::kCancelled, "", absl::StatusCode::kCancelled,
     "the caller went away"},
    {Reason::kRecordDamaged, "RECORD_DAMAGED", absl::StatusCode::kInternal,
     "the stored record breaks its own rules"},
    {Reason::kStoreBroken, "STORE_BROKEN", absl::StatusCode::kInternal,
     "the database's schema or rights are not as they should be"},
};

constexpr bool RowsStandInOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].reason) != i) return false;
  }
  return true;
}
static_assert(RowsStandInOrder());
static_assert(std::size(kRows) ==
              static_cast<size_t>(Reason::kStoreBroken) + 1);

const Row& RowOf(Reason reason) { return kRows[static_cast<size_t>(reason)]; }

constexpr absl::string_view kReasonPayload = "dedupe/reason";
constexpr absl::string_view kFieldPayload = "dedupe/field";

}  // namespace

absl::Status Refusal(Reason reason, absl::string_view field) {
  const Row& row = RowOf(reason);
  absl::Status status(row.code, row.sentence);
  status.SetPayload(kReasonPayload,
                    absl::Cord(absl::StrCat(static_cast<int>(reason))));
  if (!field.empty()) status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

Reason ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonPayload);
  int number = 0;
  if (!payload.has_value() ||
      !absl::SimpleAtoi(std::string(*payload), &number)) {
    return Reason::kUnknown;
  }
  return static_cast<Reason>(number);
}

std::string FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  return payload.has_value() ? std::string(*payload) : "";
}

absl::Duration RetryDelayOf(Reason reason) {
  switch (RowOf(reason).code) {
    case absl::StatusCode::kResourceExhausted:
      return reason == Reason::kQuota ? kQuotaRetryDelay : kRetryDelay;
    case absl::StatusCode::kUnavailable:
      return kRetryDelay;
    default:
      return absl::ZeroDuration();
  }
}

absl::string_view ReasonName(Reason reason) { return RowOf(reason).name; }

}  // namespace dedupe
