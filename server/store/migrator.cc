#include "server/store/migrator.h"

#include <map>
#include <memory>
#include <pqxx/pqxx>

#include "absl/strings/str_cat.h"
#include "server/store/connection.h"
#include "server/store/statements.h"

namespace dedupe {
namespace {

// What the database says of an applied migration.
struct Applied {
  std::string name;
  // Empty if another tool applied it.
  std::string sha256;
};

std::map<int, Applied> ReadApplied(pqxx::work& transaction) {
  std::map<int, Applied> applied;
  if (!transaction.exec1(kHasSchemaVersion)[0].as<bool>()) return applied;
  for (const pqxx::row& row : transaction.exec(kAppliedMigrations)) {
    applied[row[0].as<int>()] = {
        row[1].as<std::string>(),
        row[2].is_null() ? "" : row[2].as<std::string>()};
  }
  return applied;
}

absl::Status CheckApplied(const std::map<int, Applied>& applied,
                          absl::Span<const EmbeddedMigration> migrations) {
  for (const auto& [version, row] : applied) {
    if (version > migrations.back().version) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the database has migration ", version,
          ", but this binary knows only ", migrations.back().version,
          "; run `dedupe migrate` of the newer release"));
    }
    const EmbeddedMigration& known =
        migrations[static_cast<size_t>(version - 1)];
    if (!row.sha256.empty() && row.sha256 != known.sha256) {
      return absl::FailedPreconditionError(absl::StrCat(
          "migration ", known.name,
          " was applied from another text than the one built in; compare"
          " dedupe.schema_version.sha256 with the file's sha256sum"));
    }
  }
  return absl::OkStatus();
}

// Applies one migration unless the database has it. True if it did.
absl::StatusOr<bool> Apply(Connection& connection,
                           const EmbeddedMigration& migration,
                           absl::Span<const EmbeddedMigration> migrations) {
  bool applied_now = false;
  absl::Status refused;
  absl::Status status = connection.Transact([&](pqxx::work& transaction) {
    transaction.exec1(kMigrationLock);
    const std::map<int, Applied> applied = ReadApplied(transaction);
    refused = CheckApplied(applied, migrations);
    if (!refused.ok() || applied.contains(migration.version)) return;
    transaction.exec(std::string(migration.sql));
    transaction.exec_params0(kRecordChecksum, migration.version,
                             std::string(migration.sha256));
    applied_now = true;
  });
  if (!refused.ok()) return refused;
  if (!status.ok()) {
    return absl::Status(
        absl::IsUnavailable(status) ? absl::StatusCode::kUnavailable
                                    : absl::StatusCode::kInternal,
        absl::StrCat("migration ", migration.name, ": ", status.message()));
  }
  return applied_now;
}

absl::Status CheckEncoding(Connection& connection) {
  auto encoding = connection.Execute(kServerEncoding, {});
  if (!encoding.ok()) return encoding.status();
  const std::string name = (*encoding)[0][0].c_str();
  if (name == "UTF8") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the database's encoding is ", name,
                   "; create one with ENCODING 'UTF8' TEMPLATE template0"));
}

}  // namespace

absl::StatusOr<std::vector<int>> Migrate(
    const std::string& database_url,
    absl::Span<const EmbeddedMigration> migrations) {
  auto connection = Connection::Open(database_url);
  if (!connection.ok()) return connection.status();
  absl::Status status = CheckEncoding(**connection);
  if (!status.ok()) return status;
  std::vector<int> applied;
  for (const EmbeddedMigration& migration : migrations) {
    auto applied_now = Apply(**connection, migration, migrations);
    if (!applied_now.ok()) return applied_now.status();
    if (*applied_now) applied.push_back(migration.version);
  }
  return applied;
}

absl::Status CheckSchema(const ProbeAnswer& database,
                         absl::Span<const EmbeddedMigration> migrations) {
  const int known = migrations.back().version;
  if (database.schema_version < known) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the database's schema is at migration ", database.schema_version,
        ", this server needs ", known, "; run `dedupe migrate`"));
  }
  if (database.compatible_from > known) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the database's schema is at migration ", database.schema_version,
        ", which servers older than migration ", database.compatible_from,
        " must not use, and this one is at ", known,
        "; run the `dedupe serve` of the release that migrated it"));
  }
  return absl::OkStatus();
}

}  // namespace dedupe
