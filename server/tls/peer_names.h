// What the certificate of a call's peer says of it.
#ifndef DEDUPE_SERVER_TLS_PEER_NAMES_H_
#define DEDUPE_SERVER_TLS_PEER_NAMES_H_

#include <grpcpp/security/auth_context.h>

#include <string>
#include <vector>

namespace dedupe {

// Of both: empty if the connection is not TLS, or its peer showed no
// certificate. They do not look at revocation lists, and not at the clock.

// The subject alternative names, each with its kind in front, as access.h has
// them: the SPIFFE id first, then other URIs, then DNS names; each once. Never
// the common name: CAs do not check it as they do these.
std::vector<std::string> PeerNames(const grpc::AuthContext& context);

// The peer's own certificate and then the others that it sent, as PEM.
std::string PeerCertificates(const grpc::AuthContext& context);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_PEER_NAMES_H_
