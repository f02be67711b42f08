// The library's structs <-> the messages of dedupe.v1.
#ifndef DEDUPE_CLIENT_SRC_CODEC_H_
#define DEDUPE_CLIENT_SRC_CODEC_H_

#include <optional>

#include "absl/status/status.h"
#include "client/src/client_impl.h"
#include "dedupe/client.h"
#include "dedupe/outcome.h"
#include "dedupe/v1/dedupe.pb.h"

namespace dedupe::client {

v1::BeginRequest ToProto(const BeginRequest& request);
v1::CompleteRequest ToProto(const CompleteRequest& request);
v1::ExtendRequest ToProto(const ExtendRequest& request);
v1::ReleaseRequest ToProto(const ReleaseRequest& request);

// An outcome that this library does not know is Unknown: a newer server's.
BeginOutcome FromProto(const Answer<v1::BeginResponse>& answer);
Completed FromProto(const v1::CompleteResponse& message);
Extended FromProto(const Answer<v1::ExtendResponse>& answer);
Released FromProto(const v1::ReleaseResponse& message);
// Errors: kUnimplemented for a state that this library does not know.
absl::StatusOr<Record> FromProto(const v1::LookupResponse& message);

SteadyClock::time_point HoldsUntil(const Answer<v1::ExtendResponse>& answer);

// The refusal that an error is, if it is one.
std::optional<Refused> RefusalOf(const absl::Status& status);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_CODEC_H_
