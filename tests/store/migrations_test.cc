// The migrations, by whichever tool, whoever runs it, and however often at
// once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/store/embedded_migrations.h"
#include "server/store/migrator.h"
#include "tests/store/session.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"
#include "tests/support/server_process.h"

namespace dedupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kVersions[] =
    "SELECT string_agg(version || ':' || name, ',' ORDER BY version)"
    " FROM dedupe.schema_version";

// Such as ".up.sql", in order of version.
std::vector<std::string> FilesEndingWith(const std::string& ending) {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceDirectory() + "/migrations")) {
    const std::string path = entry.path().string();
    if (path.ends_with(ending)) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

// As one transaction, which is how a person would do it.
void RunFile(const std::string& url, const std::string& file) {
  const ProcessResult result =
      RunProcess({"psql", "--no-psqlrc", "--quiet", "--single-transaction",
                  "--set", "ON_ERROR_STOP=1", "--file", file, url});
  ASSERT_EQ(result.exit_code, 0) << file << ": " << result.standard_error;
}

// The schema as statements, less what differs from one dump to the next.
std::string Dump(const std::string& url) {
  const ProcessResult result =
      RunProcess({"pg_dump", "--schema-only", "--schema=dedupe", url});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  std::vector<std::string> lines = absl::StrSplit(result.standard_output, '\n');
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [](const std::string& line) {
                               return line.starts_with("\\restrict") ||
                                      line.starts_with("\\unrestrict");
                             }),
              lines.end());
  return absl::StrJoin(lines, "\n");
}

class MigrationsTest : public ::testing::Test {
 protected:
  MigrationsTest() : url_(cluster_.Url(cluster_.CreateDatabase())) {}

  // Not the shared one where roles or their absence matter.
  PostgresCluster& cluster_ = PostgresCluster::Shared();
  const std::string url_;
};

// The schema that `dedupe migrate` makes.
std::string ReferenceDump() {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const std::string url = cluster.Url(cluster.CreateDatabase());
  EXPECT_TRUE(Migrate(url, EmbeddedMigrations()).ok());
  return Dump(url);
}

TEST_F(MigrationsTest, EveryUpHasADownAndANumber) {
  const auto ups = FilesEndingWith(".up.sql");
  const auto downs = FilesEndingWith(".down.sql");
  const auto migrations = EmbeddedMigrations();
  ASSERT_EQ(ups.size(), migrations.size());
  ASSERT_EQ(downs.size(), migrations.size());
  for (size_t i = 0; i < migrations.size(); ++i) {
    const std::string base =
        SourceDirectory() + "/migrations/" + std::string(migrations[i].name);
    EXPECT_EQ(ups[i], base + ".up.sql");
    EXPECT_EQ(downs[i], base + ".down.sql");
    EXPECT_EQ(static_cast<size_t>(migrations[i].version), i + 1);
  }
}

TEST_F(MigrationsTest, RecordsEachWithItsChecksum) {
  const auto applied = Migrate(url_, EmbeddedMigrations());
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(applied->size(), EmbeddedMigrations().size());
  for (const EmbeddedMigration& migration : EmbeddedMigrations()) {
    EXPECT_EQ(SqlValue(url_, absl::StrCat("SELECT sha256 FROM"
                                          " dedupe.schema_version WHERE"
                                          " version = ",
                                          migration.version)),
              std::string(migration.sha256));
  }
  // Once more changes nothing.
  const auto again = Migrate(url_, EmbeddedMigrations());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(*again, IsEmpty());
}

TEST_F(MigrationsTest, PsqlMakesTheSameSchema) {
  for (const std::string& file : FilesEndingWith(".up.sql")) {
    RunFile(url_, file);
  }
  EXPECT_EQ(Dump(url_), ReferenceDump());
  // Which `dedupe migrate` accepts as applied.
  const auto applied = Migrate(url_, EmbeddedMigrations());
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_THAT(*applied, IsEmpty());
}

TEST_F(MigrationsTest, AnotherToolsWorkIsCarriedOn) {
  const auto files = FilesEndingWith(".up.sql");
  for (size_t i = 0; i < 4; ++i) RunFile(url_, files[i]);
  const auto applied = Migrate(url_, EmbeddedMigrations());
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(applied->front(), 5);
  EXPECT_EQ(applied->size(), files.size() - 4);
  EXPECT_EQ(Dump(url_), ReferenceDump());
}

TEST_F(MigrationsTest, GolangMigrateMakesTheSameSchema) {
  if (!HasProgram("migrate")) {
    GTEST_SKIP() << "golang-migrate (\"migrate\") is not in PATH";
  }
  const std::string name = SqlValue(url_, "SELECT current_database()");
  const auto run = [&](const std::vector<std::string>& command) {
    std::vector<std::string> argv = {
        "migrate", "-path", SourceDirectory() + "/migrations", "-database",
        absl::StrCat("postgres:///", name,
                     "?user=postgres&sslmode=disable&host=",
                     cluster_.socket_directory())};
    argv.insert(argv.end(), command.begin(), command.end());
    const ProcessResult result = RunProcess(argv);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  };
  run({"up"});
  EXPECT_EQ(Dump(url_), ReferenceDump());
  run({"down", "-all"});
  EXPECT_EQ(SqlValue(url_, "SELECT to_regnamespace('dedupe')"), "NULL");
  run({"up"});
  EXPECT_EQ(Dump(url_), ReferenceDump());
}

TEST_F(MigrationsTest, EachDownUndoesItsUp) {
  const auto ups = FilesEndingWith(".up.sql");
  const auto downs = FilesEndingWith(".down.sql");
  RunFile(url_, ups[0]);
  for (size_t i = 1; i < ups.size(); ++i) {
    const std::string before = Dump(url_);
    const std::string versions = SqlValue(url_, kVersions);
    RunFile(url_, ups[i]);
    EXPECT_NE(SqlValue(url_, kVersions), versions);
    RunFile(url_, downs[i]);
    EXPECT_EQ(Dump(url_), before) << downs[i];
    EXPECT_EQ(SqlValue(url_, kVersions), versions) << downs[i];
    RunFile(url_, ups[i]);
  }
  EXPECT_EQ(Dump(url_), ReferenceDump());
}

TEST_F(MigrationsTest, ManyMigratorsAtOnceAreOne) {
  constexpr int kMigrators = 8;
  for (int round = 0; round < 5; ++round) {
    const std::string url = cluster_.Url(cluster_.CreateDatabase());
    std::vector<absl::StatusOr<std::vector<int>>> results(
        kMigrators, absl::UnknownError("not run"));
    std::vector<std::thread> threads;
    threads.reserve(kMigrators);
    for (auto& result : results) {
      threads.emplace_back(
          [&] { result = Migrate(url, EmbeddedMigrations()); });
    }
    for (std::thread& thread : threads) thread.join();
    // Each migration was applied by one of them.
    std::vector<int> applied;
    for (const auto& result : results) {
      ASSERT_TRUE(result.ok()) << result.status();
      applied.insert(applied.end(), result->begin(), result->end());
    }
    std::sort(applied.begin(), applied.end());
    ASSERT_EQ(applied.size(), EmbeddedMigrations().size());
    EXPECT_EQ(applied.back(), EmbeddedMigrations().back().version);
    EXPECT_EQ(SqlValue(url, "SELECT count(*) FROM dedupe.schema_version"),
              absl::StrCat(applied.size()));
  }
}

TEST_F(MigrationsTest, CommandMigratesAtOnceWithItself) {
  if (!std::filesystem::exists(DedupeBinary())) {
    GTEST_SKIP() << "this build leaves out the server: " << DedupeBinary();
  }
  constexpr int kProcesses = 4;
  std::vector<std::unique_ptr<Process>> processes;
  processes.reserve(kProcesses);
  for (int i = 0; i < kProcesses; ++i) {
    processes.push_back(std::make_unique<Process>(
        std::vector<std::string>{DedupeBinary(), "migrate"},
        Environment{{"DEDUPE_DATABASE_URL", url_}},
        absl::StrCat(ScratchDirectory(), "/migrate-", i)));
  }
  for (const auto& process : processes) {
    EXPECT_EQ(process->Wait(), 0) << process->Output();
  }
  EXPECT_EQ(Dump(url_), ReferenceDump());
}

TEST_F(MigrationsTest, ChangedMigrationIsRefused) {
  ASSERT_TRUE(Migrate(url_, EmbeddedMigrations()).ok());
  Sql(url_,
      "UPDATE dedupe.schema_version SET sha256 = repeat('0', 64)"
      " WHERE version = 3");
  const auto refused = Migrate(url_, EmbeddedMigrations());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("0003_create_clock"));
}

TEST_F(MigrationsTest, NewerDatabaseIsRefused) {
  ASSERT_TRUE(Migrate(url_, EmbeddedMigrations()).ok());
  Sql(url_,
      "INSERT INTO dedupe.schema_version (version, name, compatible_from)"
      " VALUES (999, 'of_the_future', 999)");
  const auto refused = Migrate(url_, EmbeddedMigrations());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("999"));
}

TEST_F(MigrationsTest, FailedMigrationLeavesNothing) {
  const auto embedded = EmbeddedMigrations();
  const std::vector<EmbeddedMigration> migrations = {
      embedded[0],
      embedded[1],
      {3, "0003_create_trouble",
       "CREATE TABLE dedupe.trouble (); SELECT 1 / 0;", embedded[2].sha256}};
  const auto failed = Migrate(url_, migrations);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("0003_create_trouble"));
  EXPECT_EQ(SqlValue(url_, "SELECT to_regclass('dedupe.trouble')"), "NULL");
  EXPECT_EQ(SqlValue(url_, kVersions), "1:create_schema,2:create_record");
  // The lock is not left behind either.
  EXPECT_TRUE(Migrate(url_, embedded).ok());
}

TEST_F(MigrationsTest, OtherEncodingsAreRefused) {
  const std::string url = cluster_.Url(cluster_.CreateDatabase(
      "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"));
  const auto refused = Migrate(url, EmbeddedMigrations());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("LATIN1"));
  EXPECT_EQ(SqlValue(url, "SELECT to_regnamespace('dedupe')"), "NULL");
}

TEST_F(MigrationsTest, NoDatabaseIsUnavailable) {
  const auto refused =
      Migrate(cluster_.Url("no_such_database"), EmbeddedMigrations());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
}

// Where the schema's state decides whether a server may serve.
TEST(SchemaCheckTest, JudgesByNumberAndCompatibility) {
  const auto embedded = EmbeddedMigrations();
  const int known = embedded.back().version;
  const auto check = [&](int version, int compatible_from) {
    ProbeAnswer answer;
    answer.schema_version = version;
    answer.compatible_from = compatible_from;
    return CheckSchema(answer, embedded).code();
  };
  EXPECT_EQ(check(known, known), absl::StatusCode::kOk);
  EXPECT_EQ(check(known - 1, 1), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(check(known + 1, known), absl::StatusCode::kOk);
  EXPECT_EQ(check(known + 2, known + 1), absl::StatusCode::kFailedPrecondition);
}

// Roles belong to the whole cluster: here nobody else has made or uses them.
class FreshClusterTest : public ::testing::Test {
 protected:
  FreshClusterTest() : cluster_({}) {}

  std::string Roles() {
    return SqlValue(cluster_.Url("postgres"),
                    "SELECT string_agg(rolname, ',' ORDER BY rolname) FROM"
                    " pg_roles WHERE rolname LIKE 'dedupe%'");
  }

  PostgresCluster cluster_;
};

TEST_F(FreshClusterTest, DownLeavesNothing) {
  const std::string url = cluster_.Url(cluster_.CreateDatabase());
  ASSERT_TRUE(Migrate(url, EmbeddedMigrations()).ok());
  EXPECT_EQ(Roles(),
            "dedupe_migrator,dedupe_owner,dedupe_reader,dedupe_runtime");
  auto downs = FilesEndingWith(".down.sql");
  std::reverse(downs.begin(), downs.end());
  for (const std::string& file : downs) RunFile(url, file);
  EXPECT_EQ(SqlValue(url, "SELECT to_regnamespace('dedupe')"), "NULL");
  EXPECT_EQ(Roles(), "NULL");
  EXPECT_EQ(SqlValue(url,
                     "SELECT count(*) FROM pg_class WHERE relnamespace ="
                     " 'public'::regnamespace"),
            "0");
  EXPECT_TRUE(Migrate(url, EmbeddedMigrations()).ok());
}

// The roles are made by all of them at once.
TEST_F(FreshClusterTest, ManyDatabasesAreMigratedAtOnce) {
  for (int round = 0; round < 3; ++round) {
    constexpr int kDatabases = 6;
    std::vector<std::string> urls;
    urls.reserve(kDatabases);
    for (int i = 0; i < kDatabases; ++i) {
      urls.push_back(cluster_.Url(cluster_.CreateDatabase()));
    }
    std::vector<absl::Status> statuses(urls.size());
    std::vector<std::thread> threads;
    threads.reserve(urls.size());
    for (size_t i = 0; i < urls.size(); ++i) {
      threads.emplace_back([&, i] {
        statuses[i] = Migrate(urls[i], EmbeddedMigrations()).status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << status;
    // Away with the roles again, for the next round.
    for (const std::string& url : urls) {
      Sql(url, "DROP SCHEMA IF EXISTS dedupe CASCADE");
      Sql(url,
          "DROP OWNED BY dedupe_owner, dedupe_migrator, dedupe_runtime,"
          " dedupe_reader");
    }
    Sql(urls[0],
        "DROP ROLE dedupe_owner, dedupe_migrator, dedupe_runtime,"
        " dedupe_reader");
  }
}

TEST_F(FreshClusterTest, MigratorNeedsNoSuperuser) {
  const std::string admin = cluster_.Url("postgres");
  Sql(admin, "CREATE ROLE deployer LOGIN CREATEROLE");
  const std::string first = cluster_.CreateDatabase("OWNER deployer");
  const auto applied =
      Migrate(cluster_.Url(first, "deployer"), EmbeddedMigrations());
  EXPECT_TRUE(applied.ok()) << applied.status();
  // Nor may it create roles, once those are there and granted to it.
  Sql(admin, "CREATE ROLE plain LOGIN; GRANT dedupe_migrator TO plain");
  const std::string second = cluster_.CreateDatabase("OWNER plain");
  const auto applied_too =
      Migrate(cluster_.Url(second, "plain"), EmbeddedMigrations());
  EXPECT_TRUE(applied_too.ok()) << applied_too.status();
  EXPECT_EQ(Dump(cluster_.Url(first)), Dump(cluster_.Url(second)));
  // Whoever migrated, the owner is the owner's role.
  EXPECT_EQ(SqlValue(cluster_.Url(second),
                     "SELECT string_agg(DISTINCT relowner::regrole::text, ',')"
                     " FROM pg_class WHERE relnamespace ="
                     " 'dedupe'::regnamespace"),
            "dedupe_owner");
}

TEST_F(FreshClusterTest, WhoeverMayNotIsRefused) {
  Sql(cluster_.Url("postgres"), "CREATE ROLE stranger LOGIN");
  const std::string database = cluster_.CreateDatabase();
  const auto refused =
      Migrate(cluster_.Url(database, "stranger"), EmbeddedMigrations());
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(
      SqlValue(cluster_.Url(database), "SELECT to_regnamespace('dedupe')"),
      "NULL");
  EXPECT_EQ(Roles(), "NULL");
}

}  // namespace
}  // namespace dedupe::testing
