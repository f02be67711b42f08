// Calls of methods that are not ours: of health, of reflection, of none.
#ifndef DEDUPE_SERVER_RPC_OTHER_CALLS_H_
#define DEDUPE_SERVER_RPC_OTHER_CALLS_H_

#include <grpcpp/support/server_interceptor.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dedupe/v1/dedupe.grpc.pb.h"
#include "server/rpc/call_ledger.h"

namespace dedupe {

// gRPC answers them by itself, and a flood of them costs as much as one of
// ours. Nobody has a use for a thousand in a second, reset or not: each counts
// as wasted. Intercepts nothing.
class OtherCalls final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // The ledger outlives the server.
  explicit OtherCalls(CallLedger& ledger) : ledger_(ledger) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    if (!absl::StartsWith(call->method(), prefix_)) {
      ledger_.Waste(call->server_context()->peer());
    }
    return nullptr;
  }

 private:
  const std::string prefix_ =
      absl::StrCat("/", v1::DedupeService::service_full_name(), "/");

  CallLedger& ledger_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_OTHER_CALLS_H_
