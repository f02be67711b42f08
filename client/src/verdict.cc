#include "client/src/verdict.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "client/src/error_details.h"
#include "dedupe/client.h"

namespace dedupe::client {
namespace {

constexpr char kDomain[] = "dedupe";
constexpr char kReasonUrl[] = "type.googleapis.com/dedupe.v1.Reason";
// Whoever asks for more is not heeded: the caller's own time is shorter.
constexpr absl::Duration kRetryDelayMax = absl::Seconds(60);

// Codes that dedupe's contract leaves open.
bool LeavesOpen(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE ||
         code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::CANCELLED;
}

// An error that is not dedupe's own was made by something on the way: a proxy,
// or gRPC itself about an answer that it could not read. Then the call may have
// been heard, but for these codes, which tell that it was not.
bool IsDefiniteFromOthers(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    // The message is larger than the server or this client takes.
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status WithReason(absl::Status status, const std::string& reason) {
  if (!reason.empty()) status.SetPayload(kReasonUrl, absl::Cord(reason));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

Verdict Judge(const grpc::Status& status) {
  if (status.ok()) return {};
  const ErrorDetails details = DecodeErrorDetails(status.error_details());
  const bool is_ours = details.domain == kDomain;
  Verdict verdict;
  // absl's codes are gRPC's.
  verdict.status =
      WithReason({static_cast<absl::StatusCode>(status.error_code()),
                  status.error_message()},
                 is_ours ? details.reason : std::string());
  verdict.retry_delay =
      std::clamp(details.retry_delay.value_or(absl::ZeroDuration()),
                 absl::ZeroDuration(), kRetryDelayMax);
  const bool is_definite =
      !LeavesOpen(status.error_code()) &&
      (is_ours || IsDefiniteFromOthers(status.error_code()));
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
      details.retry_delay.has_value()) {
    verdict.kind = Verdict::Kind::kTurnedAway;
  } else {
    verdict.kind = is_definite ? Verdict::Kind::kRefused : Verdict::Kind::kOpen;
  }
  return verdict;
}

}  // namespace dedupe::client
