// How gRPC names those who connect.
#ifndef DEDUPE_SERVER_TRANSPORT_PEER_NAME_H_
#define DEDUPE_SERVER_TRANSPORT_PEER_NAME_H_

#include <string>

#include "server/transport/listen_address.h"

namespace dedupe {

// As grpc::ServerContext::peer() does, but for the encoding; empty for a peer
// on a Unix socket.
std::string NameOf(const SocketAddress& peer);
// Brackets are encoded in some releases of gRPC and bare in others.
std::string Decoded(const std::string& peer);
// Such a name without the port, such as "ipv4:127.0.0.1".
std::string HostOf(const std::string& peer);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TRANSPORT_PEER_NAME_H_
