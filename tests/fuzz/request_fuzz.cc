// server/rpc/codec.h and server/service/validation.h: a request, from the wire
// to the command that the store is asked. The first byte of an input chooses
// the message, the rest is its bytes.
#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dedupe/v1/dedupe.pb.h"
#include "server/rpc/codec.h"
#include "server/service/limits.h"
#include "server/service/validation.h"
#include "server/store/decode.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/check_refusal.h"

namespace dedupe {
namespace {

using ::dedupe::testing::Check;
using ::dedupe::testing::CheckFieldRefusal;
using ::google::protobuf::util::MessageDifferencer;

// --- What is accepted obeys the limits ---------------------------------------

// In other words than validation.cc, whose work it looks at: UTF-8 is decoded.
bool IsControl(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    auto code = static_cast<unsigned char>(text[i]);
    if (code >= 0xc0 && code < 0xe0 && i + 1 < text.size()) {
      code =
          static_cast<unsigned char>((code & 0x03) << 6 | (text[++i] & 0x3f));
      if ((text[i - 1] & 0x1c) != 0) continue;  // Above U+00FF.
    } else if (code >= 0x80) {
      continue;
    }
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  }
  return false;
}

void CheckText(absl::string_view text, size_t bytes_max) {
  Check(text.size() <= bytes_max, "an accepted text is not too long");
  Check(!IsControl(text), "an accepted text has no control characters");
}

void CheckId(const RecordId& id) {
  Check(!id.client_id.empty() && !id.key.empty(), "an id is not empty");
  CheckText(id.client_id, 255);
  CheckText(id.key, 255);
}

void CheckHolder(const Holder& holder) {
  Check(!holder.attempt_id.empty() && holder.fence > 0, "a holder has a fence");
  CheckText(holder.attempt_id, 64);
}

// As the database will take it: microseconds, and no null.
void CheckDuration(const std::optional<absl::Duration>& duration,
                   absl::Duration least, absl::Duration most) {
  Check(!duration.has_value() || (*duration >= least && *duration <= most),
        "an accepted duration is within bounds");
}

void CheckKept(const google::protobuf::Duration& message,
               const absl::Duration& duration) {
  const google::protobuf::Duration again = ToProto(duration);
  Check(
      again.seconds() == message.seconds() && again.nanos() == message.nanos(),
      "a duration is kept to the nanosecond");
}

void CheckAccepted(const DecodedBegin& begin, const v1::BeginRequest& request) {
  const BeginCommand& command = begin.command;
  CheckId(command.id);
  CheckText(command.operation, 128);
  Check(!command.fingerprint.empty() && command.fingerprint.size() <= 64,
        "a fingerprint has 1 to 64 bytes");
  Check(!command.attempt_id.empty(), "an attempt has a name");
  CheckText(command.attempt_id, 64);
  CheckDuration(command.lease, absl::Milliseconds(100), absl::Minutes(15));
  CheckDuration(command.ttl, absl::Milliseconds(100), absl::Hours(744));
  CheckDuration(begin.wait, absl::Nanoseconds(1), absl::Seconds(30));
  Check(command.id.key == request.key() &&
            command.fingerprint == request.fingerprint(),
        "the command is what was asked");
  Check(command.lease.has_value() == request.has_lease(), "unset stays unset");
  if (request.has_lease()) CheckKept(request.lease(), *command.lease);
  if (request.has_ttl()) CheckKept(request.ttl(), *command.ttl);
  if (request.has_wait()) CheckKept(request.wait(), *begin.wait);
}

void CheckAccepted(const CompleteCommand& command,
                   const v1::CompleteRequest& request) {
  CheckId(command.id);
  CheckHolder(command.holder);
  const Response& response = command.response;
  Check(response.headers.size() <= 64, "headers are few");
  size_t bytes = 0;
  for (const Header& header : response.headers) {
    Check(!header.name.empty(), "a header has a name");
    CheckText(header.name, 16384);
    CheckText(header.value, 16384);
    bytes += header.name.size() + header.value.size();
  }
  Check(bytes <= 16384, "headers are small");
  Check(response.body.size() <= 262144, "a body is small");
  Check(response.body.empty() || !response.body_omitted,
        "a body that is there is not omitted");
  Check(response.body == request.response().body(),
        "the command is what was asked");
  const auto stored = DecodeHeaders(EncodeHeaders(response.headers));
  Check(stored.ok() && *stored == response.headers,
        "accepted headers can be stored");
}

void CheckAccepted(const ExtendCommand& command,
                   const v1::ExtendRequest& request) {
  CheckId(command.id);
  CheckHolder(command.holder);
  CheckDuration(command.lease, absl::Milliseconds(100), absl::Minutes(15));
  Check(command.checkpoint.size() <= 4096, "a checkpoint is small");
  Check(command.checkpoint == request.checkpoint(),
        "the command is what was asked");
}

void CheckAccepted(const ReleaseCommand& command,
                   const v1::ReleaseRequest& request) {
  CheckId(command.id);
  CheckHolder(command.holder);
  Check(command.holder.fence == request.fence(),
        "the command is what was asked");
}

void CheckAccepted(const LookupCommand& command,
                   const v1::LookupRequest& request) {
  CheckId(command.id);
  Check(command.id.client_id == request.client_id(),
        "the command is what was asked");
}

// --- What it may be answered with can be sent --------------------------------

template <typename Message>
void CheckSent(const Message& message) {
  Message received;
  Check(received.ParseFromString(message.SerializeAsString()) &&
            MessageDifferencer::Equals(message, received),
        "an answer is received as it was sent");
}

void Send(BeginOutcome outcome, absl::Time decided_at) {
  CheckSent(Encode(BeginAnswer{std::move(outcome), decided_at}));
}

// Any microsecond that a 64-bit number can name, as decode.cc reads it.
absl::Time TimeOf(const Holder& holder) {
  return absl::FromUnixMicros(holder.fence);
}

void Answer(const DecodedBegin& begin) {
  const absl::Time now = absl::UnixEpoch();
  const absl::Time later =
      now + begin.command.lease.value_or(absl::Seconds(-1));
  Started started;
  started.lease_expires_at = later;
  started.checkpoint = begin.command.fingerprint;
  Send(started, now);
  Send(InProgress{now, later}, now);
  Send(Mismatch{later}, now);
  Send(InDoubt{later, 1}, now);
}

void Answer(const CompleteCommand& command) {
  const absl::Time time = TimeOf(command.holder);
  Send(Replay{command.response, time, time}, time);
  CheckSent(Encode(CompleteAnswer{time, time, false, time}));
  LookupAnswer found;
  found.state = RecordState::kCompleted;
  found.completed_at = time;
  found.expires_at = time;
  found.response = command.response;
  CheckSent(Encode(std::move(found)));
}

void Answer(const ExtendCommand& command) {
  const absl::Time time = TimeOf(command.holder);
  CheckSent(Encode(ExtendAnswer{time, time}));
}

void Answer(const ReleaseCommand& command) {
  const absl::Time time = TimeOf(command.holder);
  CheckSent(Encode(ReleaseAnswer{time, time}));
}

void Answer(const LookupCommand& command) {
  for (const RecordState state :
       {RecordState::kAbsent, RecordState::kInProgress, RecordState::kReleased,
        RecordState::kInDoubt, RecordState::kCompleted}) {
    LookupAnswer found;
    found.state = state;
    found.operation = command.id.key;
    found.created_at = absl::UnixEpoch();
    found.started_at = absl::UnixEpoch();
    CheckSent(Encode(std::move(found)));
  }
}

// --- The way of a request ----------------------------------------------------

absl::Status ValidateAll(const DecodedBegin& begin) {
  const absl::Status status = Validate(begin.command);
  return status.ok() ? ValidateWait(begin.wait) : status;
}
template <typename Command>
absl::Status ValidateAll(const Command& command) {
  return Validate(command);
}

template <typename Request>
void Try(const uint8_t* data, size_t size) {
  Request request;
  // gRPC refuses what does not parse before anything of ours sees it.
  if (size > std::numeric_limits<int>::max() ||
      !request.ParseFromArray(data, static_cast<int>(size))) {
    return;
  }
  const auto decoded = Decode(Request(request));
  if (!decoded.ok()) {
    CheckFieldRefusal(decoded.status());
    return;
  }
  if (const absl::Status status = ValidateAll(*decoded); !status.ok()) {
    CheckFieldRefusal(status);
    return;
  }
  CheckAccepted(*decoded, request);
  Answer(*decoded);
}

}  // namespace
}  // namespace dedupe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dedupe;  // NOLINT(google-build-using-namespace)
  // It would write a line for each text that is not UTF-8.
  static const bool kQuiet = (google::protobuf::SetLogHandler(nullptr), true);
  static_cast<void>(kQuiet);
  if (size == 0) return 0;
  const uint8_t* message = data + 1;
  switch (data[0] % 5) {
    case 0:
      Try<v1::BeginRequest>(message, size - 1);
      break;
    case 1:
      Try<v1::CompleteRequest>(message, size - 1);
      break;
    case 2:
      Try<v1::ExtendRequest>(message, size - 1);
      break;
    case 3:
      Try<v1::ReleaseRequest>(message, size - 1);
      break;
    default:
      Try<v1::LookupRequest>(message, size - 1);
  }
  return 0;
}
