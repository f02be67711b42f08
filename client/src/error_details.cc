#include "client/src/error_details.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/unknown_field_set.h>

namespace dedupe::client {
namespace {

using ::google::protobuf::UnknownField;
using ::google::protobuf::UnknownFieldSet;

// The messages are read by their field numbers, without generated code: a
// program may hold its own copy of google/rpc, and Protobuf ends a program in
// which a file is registered twice.
constexpr int kStatusDetails = 3;
constexpr int kErrorInfoReason = 1;
constexpr int kErrorInfoDomain = 2;
constexpr int kRetryInfoDelay = 1;

// The last field with that number, as Protobuf has it; empty if there is none.
std::string LengthDelimited(const UnknownFieldSet& fields, int number) {
  std::string found;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number &&
        field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      found = field.length_delimited();
    }
  }
  return found;
}

std::optional<absl::Duration> DecodeDelay(const std::string& bytes) {
  google::protobuf::Duration delay;
  if (!delay.ParseFromString(bytes)) return std::nullopt;
  return absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
}

void DecodeDetail(const google::protobuf::Any& any, ErrorDetails& details) {
  UnknownFieldSet fields;
  if (!fields.ParseFromString(any.value())) return;
  if (any.type_url() == "type.googleapis.com/google.rpc.ErrorInfo") {
    details.reason = LengthDelimited(fields, kErrorInfoReason);
    details.domain = LengthDelimited(fields, kErrorInfoDomain);
  } else if (any.type_url() == "type.googleapis.com/google.rpc.RetryInfo") {
    details.retry_delay = DecodeDelay(LengthDelimited(fields, kRetryInfoDelay));
  }
}

}  // namespace

ErrorDetails DecodeErrorDetails(const std::string& bytes) {
  ErrorDetails details;
  UnknownFieldSet status;
  if (!status.ParseFromString(bytes)) return details;
  for (int i = 0; i < status.field_count(); ++i) {
    const UnknownField& field = status.field(i);
    if (field.number() != kStatusDetails ||
        field.type() != UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    google::protobuf::Any any;
    if (any.ParseFromString(field.length_delimited())) {
      DecodeDetail(any, details);
    }
  }
  return details;
}

}  // namespace dedupe::client
