// Brings a database to the schema of this binary, and judges whether it has it.
#ifndef DEDUPE_SERVER_STORE_MIGRATOR_H_
#define DEDUPE_SERVER_STORE_MIGRATOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/service/store.h"
#include "server/store/embedded_migrations.h"

namespace dedupe {

// Applies what is missing, each migration in a transaction of its own under an
// advisory lock, so that any number of migrators at once are harmless, and
// returns the versions that this call applied. A migration that another tool
// has applied is accepted by its number.
//
// UNAVAILABLE: no connection. FAILED_PRECONDITION: the database is ahead of
// this binary, or an applied migration differs from the one built in, or the
// encoding is not UTF8. INTERNAL: a migration failed; nothing of it stays.
absl::StatusOr<std::vector<int>> Migrate(
    const std::string& database_url,
    absl::Span<const EmbeddedMigration> migrations);

// OK, or FAILED_PRECONDITION with a message that names the command to run: the
// database is older than this binary needs, or so new that it no longer allows
// it.
absl::Status CheckSchema(const ProbeAnswer& database,
                         absl::Span<const EmbeddedMigration> migrations);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_MIGRATOR_H_
