// The one place where an absl::Status becomes what goes over the wire: the
// code, the fixed sentence and, in `grpc-status-details-bin`, a
// google.rpc.Status with ErrorInfo, BadRequest and RetryInfo.
#ifndef DEDUPE_SERVER_RPC_RPC_STATUS_H_
#define DEDUPE_SERVER_RPC_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace dedupe {

// A status that is no Refusal (a mistake of ours) becomes INTERNAL without its
// text.
grpc::Status ToRpcStatus(const absl::Status& status);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_RPC_STATUS_H_
