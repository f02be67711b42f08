// Bearer tokens on their way to the server.
#ifndef DEDUPE_CLIENT_SRC_TOKEN_H_
#define DEDUPE_CLIENT_SRC_TOKEN_H_

#include <grpcpp/grpcpp.h>

#include "dedupe/client.h"

namespace dedupe::client {

// Puts the token of the source, if there is one, into the call's metadata.
// UNAUTHENTICATED: it cannot be had, or holds what cannot be sent, and the call
// must not be made, because gRPC would abort.
grpc::Status AddToken(const TokenSource& source, grpc::ClientContext& context);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_TOKEN_H_
