// The gRPC server with everything that bounds it.
#ifndef DEDUPE_SERVER_APP_GRPC_SERVER_H_
#define DEDUPE_SERVER_APP_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "server/app/config.h"
#include "server/rpc/call_ledger.h"
#include "server/transport/acceptor.h"

namespace dedupe {

// Built and started, with health, and with reflection if the configuration says
// so. The ledger outlives it. Connections come from the acceptor, once that is
// started. Never null.
std::unique_ptr<grpc::Server> BuildServer(
    const Config& config, Acceptor& acceptor,
    std::shared_ptr<grpc::ServerCredentials> credentials,
    grpc::Service& service, CallLedger& ledger);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_GRPC_SERVER_H_
