// The standard gRPC health service, with two meanings kept apart: a database
// that is away makes this server unready, which takes it out of the
// balancer's list, and not dead, which would restart it for nothing.
#ifndef DEDUPE_SERVER_RPC_HEALTH_H_
#define DEDUPE_SERVER_RPC_HEALTH_H_

#include <grpcpp/grpcpp.h>

namespace dedupe {

// "liveness" is SERVING for as long as the process answers. "readiness",
// "dedupe.v1.DedupeService" and "" (the whole server) are SERVING while calls
// can be answered.
class Health {
 public:
  // Before the server is built.
  static void Enable();

  // Of a server that was built after Enable(). Not ready yet.
  explicit Health(grpc::Server& server);

  // From any thread.
  void SetReady(bool ready);

 private:
  grpc::HealthCheckServiceInterface& service_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_HEALTH_H_
