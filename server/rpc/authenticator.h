// Who calls: by the token in the call's `authorization` header or, without one,
// by the certificate of its connection.
#ifndef DEDUPE_SERVER_RPC_AUTHENTICATOR_H_
#define DEDUPE_SERVER_RPC_AUTHENTICATOR_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/service/access_watch.h"

namespace dedupe {

// Thread-safe; blocks nobody.
class Authenticator {
 public:
  // The names in the certificate of a connection, the best first; none if it
  // has no certificate. CREDENTIALS_REFUSED if it is no longer valid.
  using ReadPeer = std::function<absl::StatusOr<std::vector<std::string>>(
      const grpc::AuthContext&)>;

  // Asks nobody who they are: everybody may do everything.
  Authenticator();
  // The watch must outlive it.
  Authenticator(const AccessWatch& access, ReadPeer read_peer);

  // CREDENTIALS_REFUSED: no credentials, or a token that is not valid; then the
  // certificate does not count, because whoever sends a token means it.
  // PEER_UNKNOWN, STORE_DOWN.
  absl::StatusOr<Caller> Authenticate(
      const grpc::ServerContextBase& context) const;

 private:
  // Null: everybody is `everybody_`.
  const AccessWatch* const access_ = nullptr;
  const ReadPeer read_peer_;
  const Caller everybody_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_AUTHENTICATOR_H_
