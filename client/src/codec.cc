#include "client/src/codec.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>

namespace dedupe::client {
namespace {

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration message;
  absl::Duration rest;
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return message;
}

absl::Duration FromProto(const google::protobuf::Duration& message) {
  return absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

absl::Time FromProto(const google::protobuf::Timestamp& message) {
  return absl::FromUnixSeconds(message.seconds()) +
         absl::Nanoseconds(message.nanos());
}

v1::OnLeaseExpiry ToProto(OnLeaseExpiry policy) {
  return policy == OnLeaseExpiry::kHold ? v1::ON_LEASE_EXPIRY_HOLD
                                        : v1::ON_LEASE_EXPIRY_TAKEOVER;
}

Response FromProto(const v1::Response& message, bool body_omitted) {
  Response response{.code = message.code(),
                    .headers = {},
                    .body = message.body(),
                    .body_omitted = body_omitted};
  response.headers.reserve(static_cast<size_t>(message.headers_size()));
  for (const v1::Header& header : message.headers()) {
    response.headers.push_back({header.name(), header.value()});
  }
  return response;
}

// What was left of the lease when the server decided, counted from the sending:
// the decision came later, so the lease lasts at least that long.
SteadyClock::time_point HoldsUntil(
    const google::protobuf::Timestamp& lease_expires_at,
    const google::protobuf::Timestamp& decided_at,
    SteadyClock::time_point sent_at) {
  return sent_at +
         ToSteady(FromProto(lease_expires_at) - FromProto(decided_at));
}

Started FromProto(const v1::Started& message,
                  const Answer<v1::BeginResponse>& answer) {
  return {
      .fence = message.fence(),
      .attempt_number = message.attempt_number(),
      .lease_expires_at = FromProto(message.lease_expires_at()),
      .resumed = message.resumed(),
      .taken_over = message.taken_over(),
      .checkpoint = message.checkpoint(),
      .holds_until = HoldsUntil(message.lease_expires_at(),
                                answer.message.decided_at(), answer.sent_at)};
}

absl::Status NotKnown() {
  return absl::UnimplementedError(
      "the answer is of a kind that this version of the library does not know");
}

std::optional<RecordState> FromProto(v1::RecordState state) {
  switch (state) {
    case v1::RECORD_STATE_ABSENT:
      return RecordState::kAbsent;
    case v1::RECORD_STATE_IN_PROGRESS:
      return RecordState::kInProgress;
    case v1::RECORD_STATE_RELEASED:
      return RecordState::kReleased;
    case v1::RECORD_STATE_IN_DOUBT:
      return RecordState::kInDoubt;
    case v1::RECORD_STATE_COMPLETED:
      return RecordState::kCompleted;
    default:
      return std::nullopt;
  }
}

}  // namespace

v1::BeginRequest ToProto(const BeginRequest& request) {
  v1::BeginRequest message;
  message.set_client_id(request.client_id);
  message.set_key(request.key);
  message.set_operation(request.operation);
  message.set_fingerprint(request.fingerprint);
  message.set_attempt_id(request.attempt_id);
  if (request.lease) *message.mutable_lease() = ToProto(*request.lease);
  if (request.ttl) *message.mutable_ttl() = ToProto(*request.ttl);
  // Unset is none; zero would be refused.
  if (request.wait != absl::ZeroDuration()) {
    *message.mutable_wait() = ToProto(request.wait);
  }
  message.set_on_lease_expiry(ToProto(request.on_lease_expiry));
  return message;
}

v1::CompleteRequest ToProto(const CompleteRequest& request) {
  v1::CompleteRequest message;
  message.set_client_id(request.client_id);
  message.set_key(request.key);
  message.set_attempt_id(request.attempt_id);
  message.set_fence(request.fence);
  v1::Response& response = *message.mutable_response();
  response.set_code(request.response.code);
  for (const Header& header : request.response.headers) {
    v1::Header& added = *response.add_headers();
    added.set_name(header.name);
    added.set_value(header.value);
  }
  response.set_body(request.response.body);
  message.set_body_omitted(request.response.body_omitted);
  return message;
}

v1::ExtendRequest ToProto(const ExtendRequest& request) {
  v1::ExtendRequest message;
  message.set_client_id(request.client_id);
  message.set_key(request.key);
  message.set_attempt_id(request.attempt_id);
  message.set_fence(request.fence);
  if (request.lease) *message.mutable_lease() = ToProto(*request.lease);
  message.set_checkpoint(request.checkpoint);
  return message;
}

v1::ReleaseRequest ToProto(const ReleaseRequest& request) {
  v1::ReleaseRequest message;
  message.set_client_id(request.client_id);
  message.set_key(request.key);
  message.set_attempt_id(request.attempt_id);
  message.set_fence(request.fence);
  message.set_forget_fingerprint(request.forget_fingerprint);
  return message;
}

BeginOutcome FromProto(const Answer<v1::BeginResponse>& answer) {
  const v1::BeginResponse& message = answer.message;
  switch (message.outcome_case()) {
    case v1::BeginResponse::kStarted:
      return FromProto(message.started(), answer);
    case v1::BeginResponse::kReplay:
      return Replay{.response = FromProto(message.replay().response(),
                                          message.replay().body_omitted()),
                    .completed_at = FromProto(message.replay().completed_at()),
                    .expires_at = FromProto(message.replay().expires_at())};
    case v1::BeginResponse::kInProgress:
      return InProgress{
          .started_at = FromProto(message.in_progress().started_at()),
          .lease_expires_at =
              FromProto(message.in_progress().lease_expires_at()),
          .retry_after = FromProto(message.in_progress().retry_after())};
    case v1::BeginResponse::kMismatch:
      return Mismatch{.first_seen_at =
                          FromProto(message.mismatch().first_seen_at())};
    case v1::BeginResponse::kInDoubt:
      return InDoubt{.since = FromProto(message.in_doubt().since()),
                     .attempt_number = message.in_doubt().attempt_number()};
    case v1::BeginResponse::OUTCOME_NOT_SET:
      break;
  }
  return Unknown{.status = NotKnown()};
}

Completed FromProto(const v1::CompleteResponse& message) {
  return {.completed_at = FromProto(message.completed_at()),
          .expires_at = FromProto(message.expires_at()),
          .already_completed = message.already_completed()};
}

Extended FromProto(const Answer<v1::ExtendResponse>& answer) {
  return {.lease_expires_at = FromProto(answer.message.lease_expires_at()),
          .holds_until = HoldsUntil(answer)};
}

Released FromProto(const v1::ReleaseResponse& message) {
  return {.expires_at = FromProto(message.expires_at())};
}

absl::StatusOr<Record> FromProto(const v1::LookupResponse& message) {
  const std::optional<RecordState> state = FromProto(message.state());
  if (!state.has_value()) return NotKnown();
  const auto time = [](bool is_set, const auto& field) {
    return is_set ? std::optional(FromProto(field)) : std::nullopt;
  };
  Record record{
      .state = *state,
      .operation = message.operation(),
      .attempt_number = message.attempt_number(),
      .created_at = time(message.has_created_at(), message.created_at()),
      .started_at = time(message.has_started_at(), message.started_at()),
      .lease_expires_at =
          time(message.has_lease_expires_at(), message.lease_expires_at()),
      .completed_at = time(message.has_completed_at(), message.completed_at()),
      .expires_at = time(message.has_expires_at(), message.expires_at()),
      .response = {},
      .decided_at = FromProto(message.decided_at())};
  if (message.has_response()) {
    record.response = FromProto(message.response(), message.body_omitted());
  }
  return record;
}

SteadyClock::time_point HoldsUntil(const Answer<v1::ExtendResponse>& answer) {
  return HoldsUntil(answer.message.lease_expires_at(),
                    answer.message.decided_at(), answer.sent_at);
}

std::optional<Refused> RefusalOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == "LEASE_LOST") return Refused{Refused::Reason::kLeaseLost};
  if (reason == "KEY_UNKNOWN") return Refused{Refused::Reason::kKeyUnknown};
  if (reason == "RESPONSE_CONFLICT") {
    return Refused{Refused::Reason::kResponseConflict};
  }
  if (reason == "ALREADY_COMPLETED") {
    return Refused{Refused::Reason::kAlreadyCompleted};
  }
  return std::nullopt;
}

}  // namespace dedupe::client
