#include "server/rpc/health.h"

#include <grpcpp/health_check_service_interface.h>

namespace dedupe {

void Health::Enable() { grpc::EnableDefaultHealthCheckService(true); }

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
