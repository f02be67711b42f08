// Whether a server may use the schema that it finds.
#include "server/store/migrator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "server/store/embedded_migrations.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::dedupe::testing::IsOk;
using ::testing::HasSubstr;

// This server knows five.
constexpr EmbeddedMigration kMigrations[] = {{1, "0001_create_a", "", ""},
                                             {2, "0002_create_b", "", ""},
                                             {3, "0003_create_c", "", ""},
                                             {4, "0004_create_d", "", ""},
                                             {5, "0005_create_e", "", ""}};

absl::Status Check(int schema_version, int compatible_from) {
  ProbeAnswer found;
  found.schema_version = schema_version;
  found.compatible_from = compatible_from;
  return CheckSchema(found, kMigrations);
}

TEST(CheckSchemaTest, ItsOwnVersionFits) { EXPECT_THAT(Check(5, 1), IsOk()); }

TEST(CheckSchemaTest, ItsOwnVersionFitsThoughNoOlderServerMayUseIt) {
  EXPECT_THAT(Check(5, 5), IsOk());
}

// While a fleet is being updated, old servers run on the new schema.
TEST(CheckSchemaTest, NewerFitsIfItAllowsThisServer) {
  EXPECT_THAT(Check(6, 5), IsOk());
  EXPECT_THAT(Check(60, 1), IsOk());
}

TEST(CheckSchemaTest, OlderSaysToMigrate) {
  for (const int version : {0, 1, 4}) {
    const absl::Status status = Check(version, 0);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("run `dedupe migrate`"));
  }
}

TEST(CheckSchemaTest, OlderSaysBothVersions) {
  EXPECT_EQ(Check(4, 1).message(),
            "the database's schema is at migration 4, this server needs 5; run"
            " `dedupe migrate`");
}

TEST(CheckSchemaTest, NewerThatRulesThisServerOutSaysWhatToRun) {
  for (const int compatible_from : {6, 7}) {
    const absl::Status status = Check(7, compatible_from);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("run the `dedupe serve` of the release"));
  }
}

// --- The migrations of this build --------------------------------------------

TEST(EmbeddedMigrationsTest, AreNumberedFromOneWithoutGaps) {
  int version = 0;
  for (const EmbeddedMigration& migration : EmbeddedMigrations()) {
    EXPECT_EQ(migration.version, ++version);
    EXPECT_EQ(migration.name.substr(0, 5), absl::StrFormat("%04d_", version));
    EXPECT_FALSE(migration.sql.empty());
    EXPECT_EQ(migration.sha256.size(), 64u);
  }
  EXPECT_GT(version, 0);
}

// Each sets the number by which the server recognises the schema.
TEST(EmbeddedMigrationsTest, RecordTheirOwnVersionAndName) {
  for (const EmbeddedMigration& migration : EmbeddedMigrations()) {
    const std::string row =
        absl::StrFormat("VALUES (%d, '%s',", migration.version,
                        std::string(migration.name.substr(5)));
    EXPECT_THAT(std::string(migration.sql), HasSubstr(row));
  }
}

TEST(EmbeddedMigrationsTest, FitThisServer) {
  ProbeAnswer found;
  found.schema_version = EmbeddedMigrations().back().version;
  found.compatible_from = found.schema_version;
  EXPECT_THAT(CheckSchema(found, EmbeddedMigrations()), IsOk());
}

}  // namespace
}  // namespace dedupe
