// Who may do what: nobody but the owner touches a table, and everybody else has
// just the functions that they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/embedded_migrations.h"
#include "server/store/migrator.h"
#include "server/store/postgres_store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"
#include "tests/store/session.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

constexpr char kDenied[] = "42501";

// What no role of a service may do.
constexpr const char* kForbidden[] = {
    "SELECT * FROM dedupe.record",
    "SELECT count(*) FROM dedupe.record",
    "INSERT INTO dedupe.record (client_id) VALUES ('x')",
    "UPDATE dedupe.record SET fence = 1",
    "DELETE FROM dedupe.record",
    "TRUNCATE dedupe.record",
    "DO $$ BEGIN LOCK TABLE dedupe.record IN ACCESS SHARE MODE; END $$",
    "COPY dedupe.record TO STDOUT",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/never'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM dedupe.schema_version",
    "UPDATE dedupe.schema_version SET version = 1",
    "SELECT * FROM dedupe.probe",
    "SELECT * FROM dedupe.fence_floor",
    "UPDATE dedupe.fence_floor SET fence = 0",
    "ALTER TABLE dedupe.record ADD COLUMN x integer",
    "ALTER TABLE dedupe.record DISABLE TRIGGER ALL",
    "DROP TABLE dedupe.record",
    "CREATE INDEX ON dedupe.record (fence)",
    "CREATE TABLE dedupe.mine ()",
    "CREATE FUNCTION dedupe.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    ("CREATE OR REPLACE FUNCTION dedupe.now_us() RETURNS bigint"
     " LANGUAGE sql AS 'SELECT 1::bigint'"),
    "DROP FUNCTION dedupe.reap(integer, timestamptz)",
    "ALTER FUNCTION dedupe.reap(integer, timestamptz) SECURITY INVOKER",
    "ALTER FUNCTION dedupe.reap(integer, timestamptz) RESET ALL",
    ("CREATE TRIGGER t AFTER DELETE ON dedupe.record"
     " EXECUTE FUNCTION suppress_redundant_updates_trigger()"),
    ("CREATE VIEW pg_temp.v AS SELECT * FROM dedupe.record;"
     " SELECT * FROM pg_temp.v"),
    "SET ROLE dedupe_owner",
    "SET ROLE dedupe_migrator",
    "SET SESSION AUTHORIZATION dedupe_owner",
    "GRANT dedupe_owner TO CURRENT_USER",
    "GRANT SELECT ON dedupe.record TO PUBLIC",
    "ALTER ROLE dedupe_owner LOGIN",
    "CREATE ROLE mine",
    "ALTER SCHEMA dedupe RENAME TO other",
    "CREATE SCHEMA mine",
    "ALTER SYSTEM SET fsync = off",
    "SELECT dedupe.now_us()",
    "SELECT dedupe.to_us(interval '1 s')",
    "SELECT dedupe.raise_refusal('lease_lost')",
    "SELECT dedupe.judge_holder(NULL, 'a', 1, now())",
    "SELECT * FROM dedupe.principal",
    "UPDATE dedupe.principal SET role = 'admin'",
    "SELECT * FROM dedupe.token",
    "SELECT sha256 FROM dedupe.token",
    "UPDATE dedupe.token SET revoked_at = NULL",
    "DELETE FROM dedupe.token",
    "SELECT * FROM dedupe.certificate_name",
    "SELECT * FROM dedupe.access_version",
    "UPDATE dedupe.access_version SET version = 1",
    ("SELECT dedupe.put_principal('mine', 'admin', ARRAY['*'], NULL, NULL,"
     " NULL, NULL, NULL)"),
    "SELECT dedupe.remove_principal('shop')",
    ("SELECT dedupe.create_token('shop', '0123456789abcdef', sha256('x'),"
     " NULL)"),
    "SELECT dedupe.revoke_token('0123456789abcdef')",
    "SELECT * FROM dedupe.list_principals()",
    "SELECT * FROM dedupe.list_tokens(NULL)",
    "SELECT dedupe.lock_access()",
    "SELECT dedupe.raise_access_version()",
    "SELECT dedupe.longest(ARRAY['x'])",
};

struct Role {
  const char* name;
  // Functions of the schema that it may call, with all their overloads.
  std::vector<std::string> functions;
};

void PrintTo(const Role& role, std::ostream* out) { *out << role.name; }

class RightsTest : public ::testing::TestWithParam<Role> {
 protected:
  static void SetUpTestSuite() {
    PostgresCluster& cluster = PostgresCluster::Shared();
    database = cluster.CreateMigratedDatabase();
    Sql(cluster.Url(database),
        "CREATE ROLE rights_reader LOGIN; GRANT dedupe_reader TO rights_reader;"
        "CREATE ROLE rights_service LOGIN;"
        "GRANT USAGE ON SCHEMA dedupe TO rights_service;"
        "GRANT EXECUTE ON FUNCTION dedupe.begin(text, text, text, bytea, text,"
        " interval, interval, dedupe.lease_policy), dedupe.complete(text, text,"
        " text, bigint, integer, bytea, jsonb), dedupe.lookup(text, text)"
        " TO rights_service;"
        "CREATE ROLE rights_stranger LOGIN");
  }

  static std::string Url(const std::string& user) {
    return PostgresCluster::Shared().Url(database, user);
  }

  static std::string database;
};

std::string RightsTest::database;

TEST_P(RightsTest, ForbiddenStatementsAreRefused) {
  Session session(Url(GetParam().name));
  for (const char* statement : kForbidden) {
    EXPECT_EQ(session.Run(statement).sqlstate, kDenied) << statement;
  }
}

TEST_P(RightsTest, FunctionsAreThoseThatItNeeds) {
  const auto rows =
      Session(Url("postgres"))
          .Run(absl::StrCat(
              "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace ="
              " 'dedupe'::regnamespace AND has_function_privilege('",
              GetParam().name, "', oid, 'EXECUTE') ORDER BY proname"))
          .rows;
  std::vector<std::string> functions;
  for (const auto& row : rows) functions.push_back(row[0]);
  EXPECT_EQ(functions, GetParam().functions);
}

INSTANTIATE_TEST_SUITE_P(
    Roles, RightsTest,
    ::testing::Values(Role{"dedupe_server",
                           {"access", "begin_batch", "complete_batch",
                            "extend_batch", "lookup_batch", "probe", "reap",
                            "release_batch", "usage"}},
                      Role{"rights_reader", {"lookup"}},
                      Role{"rights_service", {"begin", "complete", "lookup"}},
                      Role{"rights_stranger", {}}),
    [](const auto& role) { return std::string(role.param.name); });

class SchemaTest : public ::testing::Test {
 protected:
  SchemaTest()
      : database_(PostgresCluster::Shared().CreateMigratedDatabase()),
        url_(PostgresCluster::Shared().Url(database_)),
        admin_(url_) {}

  std::string Count(const std::string& from) {
    return admin_.Value("SELECT count(*) FROM " + from);
  }

  const std::string database_;
  const std::string url_;
  Session admin_;
};

TEST_F(SchemaTest, NothingIsGrantedToPublic) {
  EXPECT_EQ(Count("pg_proc AS p, aclexplode(coalesce(p.proacl,"
                  " acldefault('f', p.proowner))) AS a WHERE p.pronamespace ="
                  " 'dedupe'::regnamespace AND a.grantee = 0"),
            "0");
  EXPECT_EQ(Count("pg_namespace AS n, aclexplode(n.nspacl) AS a WHERE"
                  " n.nspname = 'dedupe' AND a.grantee = 0"),
            "0");
}

TEST_F(SchemaTest, TablesAreGrantedToNobody) {
  EXPECT_EQ(Count("pg_class AS c, aclexplode(c.relacl) AS a WHERE"
                  " c.relnamespace = 'dedupe'::regnamespace AND a.grantee <>"
                  " c.relowner"),
            "0");
}

TEST_F(SchemaTest, EverythingIsTheOwners) {
  EXPECT_EQ(Count("(SELECT relowner AS owner FROM pg_class WHERE relnamespace"
                  " = 'dedupe'::regnamespace UNION ALL SELECT proowner FROM"
                  " pg_proc WHERE pronamespace = 'dedupe'::regnamespace UNION"
                  " ALL SELECT typowner FROM pg_type WHERE typnamespace ="
                  " 'dedupe'::regnamespace) AS o WHERE owner <>"
                  " 'dedupe_owner'::regrole"),
            "0");
  EXPECT_EQ(Count("pg_roles WHERE rolname LIKE 'dedupe\\_%' AND rolname <>"
                  " 'dedupe_server' AND (rolcanlogin OR rolsuper OR"
                  " rolcreaterole OR rolcreatedb OR rolbypassrls)"),
            "0");
}

// Whoever runs as the owner must not be led to a caller's objects.
TEST_F(SchemaTest, DefinersFunctionsHaveAFixedSearchPath) {
  EXPECT_EQ(Count("pg_proc WHERE pronamespace = 'dedupe'::regnamespace AND"
                  " prosecdef AND NOT coalesce('search_path=dedupe, pg_temp' ="
                  " ANY (proconfig), false)"),
            "0");
  EXPECT_NE(Count("pg_proc WHERE pronamespace = 'dedupe'::regnamespace AND"
                  " prosecdef"),
            "0");
}

TEST_F(SchemaTest, TemporaryObjectsDoNotShadow) {
  Session session(PostgresCluster::Shared().Url(database_, "dedupe_server"));
  ASSERT_EQ(session
                .Run("CREATE TEMP TABLE record (client_id text, key text);"
                     "CREATE TEMP TABLE probe (id integer);"
                     "CREATE TEMP TABLE fence_floor (id boolean, fence bigint);"
                     "CREATE FUNCTION pg_temp.now_us() RETURNS bigint LANGUAGE"
                     " sql AS 'SELECT 1::bigint';"
                     "SET search_path = pg_temp, dedupe")
                .sqlstate,
            "");
  EXPECT_EQ(
      session.Value("SELECT outcome FROM dedupe.begin_batch(ARRAY['acme'],"
                    " ARRAY['k'], ARRAY[''], ARRAY['\\x01'::bytea], ARRAY['a'],"
                    " ARRAY[NULL::bigint], ARRAY[NULL::bigint],"
                    " ARRAY[NULL::dedupe.lease_policy])"),
      "started");
  EXPECT_EQ(session.Value("SELECT count(*) FROM pg_temp.record"), "0");
  EXPECT_EQ(Count("dedupe.record WHERE fence > 1000000"), "1");
}

TEST_F(SchemaTest, TextIsComparedByBytes) {
  EXPECT_EQ(Count("pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid"
                  " WHERE c.relnamespace = 'dedupe'::regnamespace AND"
                  " c.relkind = 'r' AND a.attnum > 0 AND a.attcollation NOT IN"
                  " (0, '\"C\"'::regcollation)"),
            "0");
  EXPECT_EQ(
      admin_.Value("SELECT indcollation::text FROM pg_index WHERE indexrelid ="
                   " 'dedupe.record_pkey'::regclass"),
      "950 950");
}

// Under such a collation "1-1" and "11" compare alike at first sight.
TEST_F(SchemaTest, DatabasesCollationDoesNotMatter) {
  const std::string database = PostgresCluster::Shared().CreateDatabase(
      "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'"
      " TEMPLATE template0");
  const std::string url = PostgresCluster::Shared().Url(database);
  ASSERT_EQ(SqlValue(url, "SELECT '1-1' < '11'"), "t");
  ASSERT_TRUE(Migrate(url, EmbeddedMigrations()).ok());
  PostgresStore store({.database_url = url});
  for (const char* key : {"1-1", "11", "co-op", "coop", "a", "A", "\u00e9",
                          "e\u0301", "ss", "\u00df"}) {
    const auto answer = BlockingStore(store).Begin(MakeBegin(key, "a1"));
    EXPECT_TRUE(Is<Started>(answer)) << key << ": " << Describe(answer);
  }
}

TEST_F(SchemaTest, TimesAreFinite) {
  PostgresStore store({.database_url = PostgresCluster::Shared().Url(
                           database_, "dedupe_server")});
  ASSERT_THAT(BlockingStore(store).Begin(MakeBegin("k", "a1")), IsOk());
  for (const char* change :
       {"lease_expires_at = 'infinity'", "lease_expires_at = NULL",
        "expires_at = 'infinity'", "expires_at = NULL",
        "reap_after = '-infinity'", "completed_at = now()",
        "state = 'completed'", "fence = 0", "attempt_number = 0", "ttl_us = 0",
        "fingerprint = NULL"}) {
    EXPECT_EQ(
        admin_.Run(absl::StrCat("UPDATE dedupe.record SET ", change)).sqlstate,
        "23514")
        << change;
  }
}

TEST_F(SchemaTest, ConstraintsAreNamed) {
  EXPECT_EQ(Count("pg_constraint AS c WHERE c.connamespace ="
                  " 'dedupe'::regnamespace AND c.contype = 'c' AND c.conname ~"
                  " '_check[0-9]*$'"),
            "0");
}

// Nothing that a pooler in transaction mode, or a quick commit, could not bear.
TEST_F(SchemaTest, NoTriggersSequencesOrNotifications) {
  EXPECT_EQ(Count("pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid"
                  " WHERE c.relnamespace = 'dedupe'::regnamespace"
                  // Those of foreign keys, of which the records have none.
                  " AND NOT (t.tgisinternal AND t.tgconstraint <> 0)"),
            "0");
  EXPECT_EQ(Count("pg_constraint WHERE conrelid = 'dedupe.record'::regclass"
                  " AND contype = 'f'"),
            "0");
  EXPECT_EQ(Count("pg_class WHERE relnamespace = 'dedupe'::regnamespace AND"
                  " relkind IN ('S', 'p')"),
            "0");
  EXPECT_EQ(Count("pg_proc WHERE pronamespace = 'dedupe'::regnamespace AND"
                  " prosrc ~* '(notify|advisory)'"),
            "0");
}

}  // namespace
}  // namespace dedupe::testing
