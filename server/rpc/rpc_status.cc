#include "server/rpc/rpc_status.h"

#include <google/protobuf/any.pb.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/rpc/codec.h"
#include "server/service/reason.h"

namespace dedupe {
namespace {

constexpr char kDomain[] = "dedupe";

}  // namespace

grpc::Status ToRpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const Reason reason = ReasonOf(status);
  if (reason == Reason::kUnknown) {
    return {grpc::StatusCode::INTERNAL, "internal error"};
  }
  // absl's codes are gRPC's.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message(status.message());
  const absl::string_view name = ReasonName(reason);
  if (name.empty()) return {code, message};

  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(name));
  info.set_domain(kDomain);
  const std::string field = FieldOf(status);
  if (reason == Reason::kQuota) (*info.mutable_metadata())["quota"] = field;
  details.add_details()->PackFrom(info);
  if (absl::IsInvalidArgument(status) && !field.empty()) {
    google::rpc::BadRequest bad_request;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(field);
    violation->set_description(message);
    details.add_details()->PackFrom(bad_request);
  }
  if (const absl::Duration delay = RetryDelayOf(reason);
      delay > absl::ZeroDuration()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = ToProto(delay);
    details.add_details()->PackFrom(retry);
  }
  return {code, message, details.SerializeAsString()};
}

}  // namespace dedupe
