// Messages of dedupe.proto become domain types and back. Decoding refuses what
// has no domain form (a malformed duration, an unknown enum value); bounds are
// the service's business.
#ifndef DEDUPE_SERVER_RPC_CODEC_H_
#define DEDUPE_SERVER_RPC_CODEC_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dedupe/v1/dedupe.pb.h"
#include "server/service/record.h"

namespace dedupe {

struct DecodedBegin {
  BeginCommand command;
  std::optional<absl::Duration> wait;
};

// They take what they can out of the request.
absl::StatusOr<DecodedBegin> Decode(v1::BeginRequest&& request);
absl::StatusOr<CompleteCommand> Decode(v1::CompleteRequest&& request);
absl::StatusOr<ExtendCommand> Decode(v1::ExtendRequest&& request);
absl::StatusOr<ReleaseCommand> Decode(v1::ReleaseRequest&& request);
absl::StatusOr<LookupCommand> Decode(v1::LookupRequest&& request);

v1::BeginResponse Encode(BeginAnswer&& answer);
v1::CompleteResponse Encode(CompleteAnswer&& answer);
v1::ExtendResponse Encode(ExtendAnswer&& answer);
v1::ReleaseResponse Encode(ReleaseAnswer&& answer);
v1::LookupResponse Encode(LookupAnswer&& answer);

// Whole nanoseconds are kept.
google::protobuf::Duration ToProto(absl::Duration duration);
google::protobuf::Timestamp ToProto(absl::Time time);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_CODEC_H_
