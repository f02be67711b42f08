#include "server/rpc/health.h"

#include <google/protobuf/message.h>
#include <grpcpp/health_check_service_interface.h>

#include "grpc/health/v1/health.pb.h"

namespace dedupe {

void Health::Enable() {
  grpc::EnableDefaultHealthCheckService(true);
  // Keeps the linker from leaving out what only reflection asks for.
  google::protobuf::LinkMessageReflection<
      grpc::health::v1::HealthCheckRequest>();
}

Health::Health(grpc::Server& server)
    : service_(*server.GetHealthCheckService()) {
  service_.SetServingStatus("liveness", true);
  SetReady(false);
}

void Health::SetReady(bool ready) {
  for (const char* name : {"", "readiness", "dedupe.v1.DedupeService"}) {
    service_.SetServingStatus(name, ready);
  }
}

}  // namespace dedupe
