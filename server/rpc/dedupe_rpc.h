// The gRPC service: each call is let in (or not), decoded, asked of the
// DedupeService, and its answer encoded. Nothing here blocks.
//
// The methods are raw, because what gRPC cannot parse it would answer itself,
// with INTERNAL and without a word; here it is INVALID_ARGUMENT.
#ifndef DEDUPE_SERVER_RPC_DEDUPE_RPC_H_
#define DEDUPE_SERVER_RPC_DEDUPE_RPC_H_

#include <grpcpp/grpcpp.h>

#include <atomic>

#include "dedupe/v1/dedupe.grpc.pb.h"
#include "server/rpc/authenticator.h"
#include "server/rpc/call_ledger.h"
#include "server/service/dedupe_service.h"

namespace dedupe {

using RawDedupeService = v1::DedupeService::WithRawCallbackMethod_Begin<
    v1::DedupeService::WithRawCallbackMethod_Complete<
        v1::DedupeService::WithRawCallbackMethod_Extend<
            v1::DedupeService::WithRawCallbackMethod_Release<
                v1::DedupeService::WithRawCallbackMethod_Lookup<
                    v1::DedupeService::Service>>>>>;

class DedupeRpc final : public RawDedupeService {
 public:
  // All must outlive every call.
  DedupeRpc(DedupeService& service, const Authenticator& authenticator,
            CallLedger& ledger)
      : service_(service), authenticator_(authenticator), ledger_(ledger) {}

  // From now on every call is refused with DRAINING.
  void Drain() { draining_ = true; }
  // How many have begun and are not answered.
  int calls_in_flight() const { return calls_in_flight_; }

  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

 private:
  template <typename Request, typename Answer, typename Ask>
  grpc::ServerUnaryReactor* Handle(const char* method,
                                   grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response, Ask ask);

  DedupeService& service_;
  const Authenticator& authenticator_;
  CallLedger& ledger_;
  std::atomic<bool> draining_{false};
  std::atomic<int> calls_in_flight_{0};
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_DEDUPE_RPC_H_
