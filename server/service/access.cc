#include "server/service/access.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace dedupe {

const char* RoleName(Role role) {
  switch (role) {
    case Role::kCaller:
      return "caller";
    case Role::kReader:
      return "reader";
    case Role::kAdmin:
      return "admin";
    case Role::kUnknown:
      break;
  }
  return "unknown";
}

Role RoleOf(absl::string_view name) {
  for (const Role role : {Role::kCaller, Role::kReader, Role::kAdmin}) {
    if (name == RoleName(role)) return role;
  }
  return Role::kUnknown;
}

bool MayUse(const Principal& principal, absl::string_view client_id) {
  return std::any_of(principal.client_ids.begin(), principal.client_ids.end(),
                     [client_id](absl::string_view pattern) {
                       return absl::ConsumeSuffix(&pattern, "*")
                                  ? absl::StartsWith(client_id, pattern)
                                  : client_id == pattern;
                     });
}

}  // namespace dedupe
