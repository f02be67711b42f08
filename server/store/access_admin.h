// The administrator's side of access: principals and tokens are made, listed
// and ended. Servers read what comes of it (Store::LoadAccess).
#ifndef DEDUPE_SERVER_STORE_ACCESS_ADMIN_H_
#define DEDUPE_SERVER_STORE_ACCESS_ADMIN_H_

#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/service/access.h"
#include "server/service/token.h"
#include "server/store/connection.h"

namespace dedupe {

enum class PutPrincipalOutcome { kCreated, kReplaced };

struct PrincipalListing {
  Principal principal;
  std::vector<std::string> certificate_names;
  absl::Time created_at;
};

enum class TokenState { kLive, kExpired, kRevoked };

struct TokenListing {
  std::string id;
  std::string principal;
  absl::Time created_at;
  // Unset: it does not expire.
  std::optional<absl::Time> expires_at;
  // Unset: not yet. To about a minute.
  std::optional<absl::Time> last_used_at;
  TokenState state = TokenState::kRevoked;
};

// For one thread at a time, on a connection of its own. Each call is a
// transaction, and takes turns with those of other administrators.
//
// Every call may end in INVALID_ARGUMENT, with what is wrong; in
// PERMISSION_DENIED, with what the login lacks; in FAILED_PRECONDITION where
// the database is not migrated; in UNAVAILABLE, which leaves open whether a
// change took effect; in ABORTED, where another administrator was in the way
// for seconds; or in the errors named beside it. Messages show names, never a
// digest or a secret.
class AccessAdmin {
 public:
  // INVALID_ARGUMENT, UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<AccessAdmin>> Open(
      const std::string& database_url);

  // Makes the principal, or replaces it as a whole but for its tokens.
  // ALREADY_EXISTS: a certificate name is another principal's.
  // FAILED_PRECONDITION: there are 10,000, or 16 MiB of patterns and names. DNS
  // names are kept in small letters.
  absl::StatusOr<PutPrincipalOutcome> PutPrincipal(
      const Principal& principal,
      const std::vector<std::string>& certificate_names);
  // With its tokens and certificate names. NOT_FOUND.
  absl::Status RemovePrincipal(const std::string& name);
  // By name.
  absl::StatusOr<std::vector<PrincipalListing>> ListPrincipals();

  // The database keeps the id and the digest; returns when the token expires,
  // by its clock. NOT_FOUND: the principal. FAILED_PRECONDITION: it has two
  // live tokens, as a rotation needs. ALREADY_EXISTS: the token's id.
  absl::StatusOr<std::optional<absl::Time>> CreateToken(
      const std::string& principal, const MintedToken& token,
      std::optional<absl::Duration> lifetime);
  // NOT_FOUND. FAILED_PRECONDITION: it was revoked before.
  absl::Status RevokeToken(const std::string& id);
  // By principal and age; of one principal, or of all. Those that have been
  // dead for 90 days are forgotten when their principal gets another.
  // NOT_FOUND: the principal.
  absl::StatusOr<std::vector<TokenListing>> ListTokens(
      const std::optional<std::string>& principal);

 private:
  explicit AccessAdmin(std::unique_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  // Runs the statement with the rights that it needs.
  absl::StatusOr<pqxx::result> Run(const char* statement,
                                   const SqlParameters& parameters);

  const std::unique_ptr<Connection> connection_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_ACCESS_ADMIN_H_
