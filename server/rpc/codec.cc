#include "server/rpc/codec.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "server/service/limits.h"
#include "server/service/reason.h"

namespace dedupe {
namespace {

// What protobuf's documentation allows a Duration: 10,000 years, and nanos of
// the same sign.
constexpr int64_t kDurationSecondsMax = 315'576'000'000;
constexpr int32_t kNanosMax = 999'999'999;

bool IsWellFormed(const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  return seconds >= -kDurationSecondsMax && seconds <= kDurationSecondsMax &&
         nanos >= -kNanosMax && nanos <= kNanosMax &&
         !(seconds > 0 && nanos < 0) && !(seconds < 0 && nanos > 0);
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

absl::StatusOr<OnLeaseExpiry> Decode(v1::OnLeaseExpiry value) {
  switch (value) {
    case v1::ON_LEASE_EXPIRY_UNSPECIFIED:
    case v1::ON_LEASE_EXPIRY_TAKEOVER:
      return OnLeaseExpiry::kTakeover;
    case v1::ON_LEASE_EXPIRY_HOLD:
      return OnLeaseExpiry::kHold;
    default:
      return Refusal(Reason::kOnLeaseExpiryUnknown, "on_lease_expiry");
  }
}

template <typename Request>
RecordId TakeId(Request& request) {
  return {std::move(*request.mutable_client_id()),
          std::move(*request.mutable_key())};
}

template <typename Request>
Holder TakeHolder(Request& request) {
  return {std::move(*request.mutable_attempt_id()), request.fence()};
}

Response TakeResponse(v1::Response& message) {
  Response response;
  response.code = message.code();
  response.headers.reserve(static_cast<size_t>(message.headers_size()));
  for (v1::Header& header : *message.mutable_headers()) {
    response.headers.push_back({std::move(*header.mutable_name()),
                                std::move(*header.mutable_value())});
  }
  response.body = std::move(*message.mutable_body());
  return response;
}

void Put(Response&& response, v1::Response& message) {
  message.set_code(response.code);
  for (Header& header : response.headers) {
    v1::Header& added = *message.add_headers();
    added.set_name(std::move(header.name));
    added.set_value(std::move(header.value));
  }
  message.set_body(std::move(response.body));
}

// Whatever an answer is made of, onto its message.
void Put(Started&& started, const absl::Time&, v1::BeginResponse& message) {
  v1::Started& to = *message.mutable_started();
  to.set_fence(started.fence);
  to.set_attempt_number(started.attempt_number);
  *to.mutable_lease_expires_at() = ToProto(started.lease_expires_at);
  to.set_resumed(started.resumed);
  to.set_taken_over(started.taken_over);
  to.set_checkpoint(std::move(started.checkpoint));
}

void Put(Replay&& replay, const absl::Time&, v1::BeginResponse& message) {
  v1::Replay& to = *message.mutable_replay();
  to.set_body_omitted(replay.response.body_omitted);
  Put(std::move(replay.response), *to.mutable_response());
  *to.mutable_completed_at() = ToProto(replay.completed_at);
  *to.mutable_expires_at() = ToProto(replay.expires_at);
}

void Put(InProgress&& in_progress, const absl::Time& decided_at,
         v1::BeginResponse& message) {
  v1::InProgress& to = *message.mutable_in_progress();
  *to.mutable_started_at() = ToProto(in_progress.started_at);
  *to.mutable_lease_expires_at() = ToProto(in_progress.lease_expires_at);
  const absl::Duration left = in_progress.lease_expires_at - decided_at;
  // Lapsed, with its holder's transaction still open: soon, but not at once.
  *to.mutable_retry_after() =
      ToProto(left > absl::ZeroDuration() ? std::min(left, kRetryAfterMax)
                                          : kRetryDelay);
}

void Put(Mismatch&& mismatch, const absl::Time&, v1::BeginResponse& message) {
  *message.mutable_mismatch()->mutable_first_seen_at() =
      ToProto(mismatch.first_seen_at);
}

void Put(InDoubt&& in_doubt, const absl::Time&, v1::BeginResponse& message) {
  v1::InDoubt& to = *message.mutable_in_doubt();
  *to.mutable_since() = ToProto(in_doubt.since);
  to.set_attempt_number(in_doubt.attempt_number);
}

v1::RecordState Encode(RecordState state) {
  switch (state) {
    case RecordState::kAbsent:
      return v1::RECORD_STATE_ABSENT;
    case RecordState::kInProgress:
      return v1::RECORD_STATE_IN_PROGRESS;
    case RecordState::kReleased:
      return v1::RECORD_STATE_RELEASED;
    case RecordState::kInDoubt:
      return v1::RECORD_STATE_IN_DOUBT;
    case RecordState::kCompleted:
      break;
  }
  return v1::RECORD_STATE_COMPLETED;
}

}  // namespace

absl::StatusOr<DecodedBegin> Decode(v1::BeginRequest&& request) {
  DecodedBegin begin;
  begin.command.id = TakeId(request);
  begin.command.operation = std::move(*request.mutable_operation());
  begin.command.fingerprint = std::move(*request.mutable_fingerprint());
  begin.command.attempt_id = std::move(*request.mutable_attempt_id());
  if (request.has_lease()) {
    if (!IsWellFormed(request.lease())) {
      return Refusal(Reason::kLeaseMalformed, "lease");
    }
    begin.command.lease = FromProto(request.lease());
  }
  if (request.has_ttl()) {
    if (!IsWellFormed(request.ttl())) {
      return Refusal(Reason::kTtlMalformed, "ttl");
    }
    begin.command.ttl = FromProto(request.ttl());
  }
  if (request.has_wait()) {
    if (!IsWellFormed(request.wait())) {
      return Refusal(Reason::kWaitMalformed, "wait");
    }
    begin.wait = FromProto(request.wait());
  }
  auto on_lease_expiry = Decode(request.on_lease_expiry());
  if (!on_lease_expiry.ok()) return on_lease_expiry.status();
  begin.command.on_lease_expiry = *on_lease_expiry;
  return begin;
}

absl::StatusOr<CompleteCommand> Decode(v1::CompleteRequest&& request) {
  if (!request.has_response()) {
    return Refusal(Reason::kResponseMissing, "response");
  }
  CompleteCommand command;
  command.id = TakeId(request);
  command.holder = TakeHolder(request);
  command.response = TakeResponse(*request.mutable_response());
  command.response.body_omitted = request.body_omitted();
  return command;
}

absl::StatusOr<ExtendCommand> Decode(v1::ExtendRequest&& request) {
  ExtendCommand command;
  command.id = TakeId(request);
  command.holder = TakeHolder(request);
  if (request.has_lease()) {
    if (!IsWellFormed(request.lease())) {
      return Refusal(Reason::kLeaseMalformed, "lease");
    }
    command.lease = FromProto(request.lease());
  }
  command.checkpoint = std::move(*request.mutable_checkpoint());
  return command;
}

absl::StatusOr<ReleaseCommand> Decode(v1::ReleaseRequest&& request) {
  ReleaseCommand command;
  command.id = TakeId(request);
  command.holder = TakeHolder(request);
  command.forget_fingerprint = request.forget_fingerprint();
  return command;
}

absl::StatusOr<LookupCommand> Decode(v1::LookupRequest&& request) {
  return LookupCommand{TakeId(request)};
}

v1::BeginResponse Encode(BeginAnswer&& answer) {
  v1::BeginResponse message;
  std::visit(
      [&](auto& outcome) {
        Put(std::move(outcome), answer.decided_at, message);
      },
      answer.outcome);
  *message.mutable_decided_at() = ToProto(answer.decided_at);
  return message;
}

v1::CompleteResponse Encode(CompleteAnswer&& answer) {
  v1::CompleteResponse message;
  *message.mutable_completed_at() = ToProto(answer.completed_at);
  *message.mutable_expires_at() = ToProto(answer.expires_at);
  message.set_already_completed(answer.already_completed);
  *message.mutable_decided_at() = ToProto(answer.decided_at);
  return message;
}

v1::ExtendResponse Encode(ExtendAnswer&& answer) {
  v1::ExtendResponse message;
  *message.mutable_lease_expires_at() = ToProto(answer.lease_expires_at);
  *message.mutable_decided_at() = ToProto(answer.decided_at);
  return message;
}

v1::ReleaseResponse Encode(ReleaseAnswer&& answer) {
  v1::ReleaseResponse message;
  *message.mutable_expires_at() = ToProto(answer.expires_at);
  *message.mutable_decided_at() = ToProto(answer.decided_at);
  return message;
}

v1::LookupResponse Encode(LookupAnswer&& answer) {
  v1::LookupResponse message;
  message.set_state(Encode(answer.state));
  message.set_operation(std::move(answer.operation));
  message.set_attempt_number(answer.attempt_number);
  const auto put_time = [](const std::optional<absl::Time>& time,
                           auto mutable_field) {
    if (time.has_value()) *mutable_field() = ToProto(*time);
  };
  put_time(answer.created_at, [&] { return message.mutable_created_at(); });
  put_time(answer.started_at, [&] { return message.mutable_started_at(); });
  put_time(answer.lease_expires_at,
           [&] { return message.mutable_lease_expires_at(); });
  put_time(answer.completed_at, [&] { return message.mutable_completed_at(); });
  put_time(answer.expires_at, [&] { return message.mutable_expires_at(); });
  if (answer.response.has_value()) {
    message.set_body_omitted(answer.response->body_omitted);
    Put(*std::move(answer.response), *message.mutable_response());
  }
  *message.mutable_decided_at() = ToProto(answer.decided_at);
  return message;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration message;
  absl::Duration rest;
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return message;
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp message;
  const int64_t seconds = absl::ToUnixSeconds(time);
  message.set_seconds(seconds);
  message.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return message;
}

}  // namespace dedupe
