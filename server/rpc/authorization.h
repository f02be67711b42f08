// The one table of who may call what.
#ifndef DEDUPE_SERVER_RPC_AUTHORIZATION_H_
#define DEDUPE_SERVER_RPC_AUTHORIZATION_H_

#include "absl/strings/string_view.h"
#include "server/service/access.h"

namespace dedupe {

// service: its full name, such as `dedupe.v1.DedupeService`. What the table
// does not name is allowed to nobody. Health and reflection are not in it: they
// tell nothing of any client, and gRPC serves them itself.
bool IsAllowed(absl::string_view service, absl::string_view method, Role role);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_AUTHORIZATION_H_
