// The SQL door: a service whose tables share the database with dedupe does its
// work and completes the key in one transaction. Whatever happens in between,
// there are both or neither.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/store/session.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"

namespace dedupe::testing {
namespace {

using ::testing::HasSubstr;

// A role of the service's own, which may call the five functions and no more.
constexpr char kService[] = R"sql(
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'payments') THEN
    CREATE ROLE payments LOGIN;
  END IF;
END $$;
GRANT USAGE ON SCHEMA dedupe TO payments;
GRANT EXECUTE ON FUNCTION
  dedupe.begin(
    text, text, text, bytea, text, interval, interval, dedupe.lease_policy),
  dedupe.complete(text, text, text, bigint, integer, bytea, jsonb),
  dedupe.extend(text, text, text, bigint, interval, bytea),
  dedupe.release(text, text, text, bigint, boolean),
  dedupe.lookup(text, text)
TO payments;
CREATE TABLE public.charge (cents bigint NOT NULL);
GRANT SELECT, INSERT ON public.charge TO payments;
)sql";

class DoorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    database = PostgresCluster::Shared().CreateMigratedDatabase();
    Sql(PostgresCluster::Shared().Url(database), kService);
  }

  DoorTest() : service_(ServiceUrl()) {
    Sql(AdminUrl(), "TRUNCATE public.charge, dedupe.record");
  }

  static std::string ServiceUrl() {
    return PostgresCluster::Shared().Url(database, "payments");
  }
  static std::string AdminUrl() {
    return PostgresCluster::Shared().Url(database);
  }

  static std::string BeginCall(const std::string& attempt,
                               const std::string& key = "k",
                               const std::string& more = "") {
    return absl::StrCat("dedupe.begin('acme', '", key,
                        "', 'POST /v1/charges', '\\x01', '", attempt, "'", more,
                        ")");
  }
  static std::string CompleteCall(const std::string& attempt,
                                  const std::string& fence,
                                  const std::string& body = "done") {
    return absl::StrCat("dedupe.complete('acme', 'k', '", attempt, "', ", fence,
                        ", 201, '", body, "')");
  }

  // Begun in a transaction of its own; returns the fence.
  std::string Begin(const std::string& attempt, const std::string& more = "") {
    return service_.Value("SELECT fence FROM " + BeginCall(attempt, "k", more));
  }
  // A transaction that charges and then makes this call: its SQLSTATE.
  std::string ChargeAnd(const std::string& call) {
    service_.Run("BEGIN; INSERT INTO public.charge VALUES (2500)");
    std::string sqlstate = service_.Run("SELECT " + call).sqlstate;
    service_.Run("COMMIT");
    return sqlstate;
  }
  static std::string Charges() {
    return SqlValue(AdminUrl(), "SELECT count(*) FROM public.charge");
  }
  static std::string State() {
    return Session(AdminUrl())
        .Value("SELECT state FROM dedupe.lookup('acme', 'k')");
  }

  // Until the lease of the only record is past.
  static void WaitUntilLapsed() {
    Session admin(AdminUrl());
    const absl::Time until = absl::Now() + absl::Seconds(10);
    while (admin.Value("SELECT lease_expires_at <= clock_timestamp()"
                       " FROM dedupe.record") != "t" &&
           absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  // The first field of a call by somebody else, and how long it took.
  static std::pair<std::string, absl::Duration> Timed(const std::string& call) {
    Session other(ServiceUrl());
    const auto start = std::chrono::steady_clock::now();
    std::string value = other.Value("SELECT outcome FROM " + call);
    return {std::move(value),
            absl::FromChrono(std::chrono::steady_clock::now() - start)};
  }

  static std::string database;
  Session service_;
};

std::string DoorTest::database;

// Far below the lock timeouts, far above what a busy machine needs.
constexpr absl::Duration kAtOnce = absl::Milliseconds(100);

TEST_F(DoorTest, WorkAndCompletionCommitTogether) {
  const std::string fence = Begin("a1");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "");
  EXPECT_EQ(Charges(), "1");
  EXPECT_EQ(State(), "completed");
  EXPECT_EQ(service_.Value("SELECT outcome || ' ' ||"
                           " convert_from(response_body, 'UTF8') FROM " +
                           BeginCall("a2")),
            "replay done");
}

TEST_F(DoorTest, WorkAndCompletionRollBackTogether) {
  const std::string fence = Begin("a1");
  service_.Run("BEGIN; INSERT INTO public.charge VALUES (2500); SELECT " +
               CompleteCall("a1", fence));
  service_.Run("ROLLBACK");
  EXPECT_EQ(Charges(), "0");
  EXPECT_EQ(State(), "in_progress");
  // The same attempt may try the whole of it again.
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "");
  EXPECT_EQ(Charges(), "1");
}

TEST_F(DoorTest, NothingIsLeftOfABackendKilledBeforeCommit) {
  for (const bool completed : {false, true}) {
    Sql(AdminUrl(), "TRUNCATE dedupe.record");
    Session victim(ServiceUrl());
    const std::string fence = victim.Value(
        "SELECT fence FROM " + BeginCall("a1", "k", ", interval '100 ms'"));
    victim.Run("BEGIN; INSERT INTO public.charge VALUES (2500)");
    if (completed) victim.Run("SELECT " + CompleteCall("a1", fence));
    Sql(AdminUrl(), absl::StrCat("SELECT pg_terminate_backend(",
                                 victim.backend_pid(), ", 10000)"));
    EXPECT_EQ(victim.Run("COMMIT").sqlstate, "lost");
    EXPECT_EQ(Charges(), "0");
    EXPECT_EQ(State(), "in_progress");
    // The crash left a trace: the next one is told to look.
    WaitUntilLapsed();
    EXPECT_EQ(service_.Value("SELECT outcome || ' ' || taken_over FROM " +
                             BeginCall("a2")),
              "started true");
  }
}

TEST_F(DoorTest, OthersAreAnsweredWhileTheWorkIsUncommitted) {
  const std::string fence = Begin("a1");
  service_.Run("BEGIN; INSERT INTO public.charge VALUES (2500); SELECT " +
               CompleteCall("a1", fence));
  const auto same_key = Timed(BeginCall("a2"));
  EXPECT_EQ(same_key.first, "in_progress");
  EXPECT_LT(same_key.second, kAtOnce);
  const auto other_key = Timed(BeginCall("a2", "another"));
  EXPECT_EQ(other_key.first, "started");
  EXPECT_LT(other_key.second, kAtOnce);
  EXPECT_EQ(State(), "in_progress");
  service_.Run("COMMIT");
  EXPECT_EQ(Timed(BeginCall("a2")).first, "replay");
}

// The lease has lapsed, but its holder is about to commit: nobody can take over
// now, nor is kept waiting.
TEST_F(DoorTest, TakeoverDoesNotWaitForTheUncommitted) {
  const std::string fence = Begin("a1", ", interval '100 ms'");
  service_.Run("BEGIN; SELECT " + CompleteCall("a1", fence));
  WaitUntilLapsed();
  const auto takeover = Timed(BeginCall("a2"));
  EXPECT_EQ(takeover.first, "in_progress");
  EXPECT_LT(takeover.second, absl::Seconds(1));
  service_.Run("COMMIT");
  EXPECT_EQ(Timed(BeginCall("a2")).first, "replay");
}

TEST_F(DoorTest, LostLeaseCannotCommit) {
  const std::string fence = Begin("a1", ", interval '100 ms'");
  WaitUntilLapsed();
  Begin("a2");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "DD001");
  EXPECT_EQ(Charges(), "0");
}

TEST_F(DoorTest, UnknownKeyCannotCommit) {
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", "1")), "DD002");
  EXPECT_EQ(Charges(), "0");
}

TEST_F(DoorTest, AnotherResponseCannotCommit) {
  const std::string fence = Begin("a1");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence, "other")), "DD003");
  EXPECT_EQ(Charges(), "1");
}

TEST_F(DoorTest, RepeatedCompletionCannotCommitTheWorkTwice) {
  const std::string fence = Begin("a1");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "DD004");
  EXPECT_EQ(Charges(), "1");
}

TEST_F(DoorTest, ReleasedAttemptCannotBeginAgain) {
  const std::string fence = Begin("a1");
  const std::string release =
      absl::StrCat("dedupe.release('acme', 'k', 'a1', ", fence, ")");
  EXPECT_EQ(service_.Value("SELECT outcome FROM " + release), "released");
  EXPECT_EQ(service_.Value("SELECT outcome FROM " + BeginCall("a1")), "DD005");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "DD001");
  EXPECT_EQ(Charges(), "0");
  // Its repetition is no refusal.
  EXPECT_EQ(service_.Value("SELECT outcome FROM " + release), "released");
}

TEST_F(DoorTest, ExtendAndReleaseRaiseLikewise) {
  const std::string fence = Begin("a1");
  const auto extend = [](const std::string& attempt, const std::string& of) {
    return absl::StrCat("dedupe.extend('acme', 'k', '", attempt, "', ", of,
                        ", interval '1 minute', '\\x07')");
  };
  EXPECT_EQ(service_.Value("SELECT outcome FROM " + extend("a1", fence)),
            "extended");
  EXPECT_EQ(ChargeAnd(extend("a2", fence)), "DD001");
  EXPECT_EQ(ChargeAnd(CompleteCall("a1", fence)), "");
  EXPECT_EQ(ChargeAnd(extend("a1", fence)), "DD004");
  EXPECT_EQ(
      ChargeAnd(absl::StrCat("dedupe.release('acme', 'k', 'a1', ", fence, ")")),
      "DD004");
  EXPECT_EQ(Charges(), "1");
}

TEST_F(DoorTest, RefusalsBeginWithTheReason) {
  const auto answer = service_.Run("SELECT " + CompleteCall("a1", "1"));
  EXPECT_THAT(answer.message, HasSubstr("KEY_UNKNOWN: "));
  // What the caller sent is not in the text.
  EXPECT_THAT(answer.message, ::testing::Not(HasSubstr("acme")));
}

TEST_F(DoorTest, BeginNeedsReadCommitted) {
  for (const char* level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    service_.Run(absl::StrCat("BEGIN ISOLATION LEVEL ", level));
    EXPECT_EQ(service_.Value("SELECT outcome FROM " + BeginCall("a1")),
              "DD007");
    service_.Run("ROLLBACK");
  }
  EXPECT_EQ(State(), "absent");
}

TEST_F(DoorTest, CompleteWorksAtEveryIsolationLevel) {
  for (const char* level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    Sql(AdminUrl(), "TRUNCATE public.charge, dedupe.record");
    const std::string fence = Begin("a1");
    service_.Run(absl::StrCat("BEGIN ISOLATION LEVEL ", level,
                              "; INSERT INTO public.charge VALUES (2500)"));
    EXPECT_EQ(service_.Run("SELECT " + CompleteCall("a1", fence)).sqlstate, "");
    EXPECT_EQ(service_.Run("COMMIT").sqlstate, "");
    EXPECT_EQ(Charges(), "1");
    EXPECT_EQ(State(), "completed");
  }
}

// Its snapshot shows it as the holder still.
TEST_F(DoorTest, TakeoverBehindAnOldSnapshotCannotBeCommittedPast) {
  const std::string fence = Begin("a1", ", interval '100 ms'");
  service_.Run(
      "BEGIN ISOLATION LEVEL REPEATABLE READ;"
      " INSERT INTO public.charge VALUES (2500)");
  WaitUntilLapsed();
  EXPECT_EQ(Timed(BeginCall("a2")).first, "started");
  EXPECT_EQ(service_.Run("SELECT " + CompleteCall("a1", fence)).sqlstate,
            "40001");
  service_.Run("COMMIT");
  EXPECT_EQ(Charges(), "0");
}

TEST_F(DoorTest, OneOfTwoRacingBusinessTransactionsCommits) {
  const std::string fence = Begin("a1");
  const auto charge = [&] {
    Session session(ServiceUrl());
    session.Run("BEGIN; INSERT INTO public.charge VALUES (2500)");
    session.Run("SELECT " + CompleteCall("a1", fence));
    session.Run("COMMIT");
  };
  constexpr int kRivals = 8;
  std::vector<std::thread> threads;
  threads.reserve(kRivals);
  for (int i = 0; i < kRivals; ++i) threads.emplace_back(charge);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Charges(), "1");
  EXPECT_EQ(State(), "completed");
}

// Drivers send parameters without types.
TEST_F(DoorTest, ParametersNeedNoTypes) {
  const auto begun = service_.RunWith(
      "SELECT fence FROM dedupe.begin($1, $2, $3, $4, $5, $6, $7, $8)",
      {"acme", "k", "", "\\x01", "a1", "5 s", "1 hour", "hold"});
  ASSERT_EQ(begun.sqlstate, "") << begun.message;
  const std::string fence = begun.rows[0][0];
  EXPECT_EQ(service_
                .RunWith("SELECT dedupe.extend($1, $2, $3, $4, $5, $6)",
                         {"acme", "k", "a1", fence, "5 s", "\\x00"})
                .sqlstate,
            "");
  EXPECT_EQ(service_
                .RunWith("SELECT dedupe.complete($1, $2, $3, $4, $5, $6, $7)",
                         {"acme", "k", "a1", fence, "201", "done", "[]"})
                .sqlstate,
            "");
}

TEST_F(DoorTest, LookupShowsTheRecordButNotTheAttempt) {
  Begin("the-attempt");
  const auto answer =
      service_.Run("SELECT l::text FROM dedupe.lookup('acme', 'k') AS l");
  EXPECT_THAT(answer.rows[0][0], HasSubstr("in_progress"));
  EXPECT_THAT(answer.rows[0][0], ::testing::Not(HasSubstr("the-attempt")));
}

TEST(DoorExampleTest, RunsAsWritten) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const std::string database = cluster.CreateMigratedDatabase();
  const ProcessResult result =
      RunProcess({"psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1",
                  "--file", SourceDirectory() + "/docs/examples/sql_door.sql",
                  cluster.Url(database)});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(result.standard_output,
            "first request: started\n"
            "completed for: 1 day\n"
            "same request again: replay 201 {\"charged\": 2500}\n"
            "another request with that key: mismatch\n"
            "charges: 1\n");
}

}  // namespace
}  // namespace dedupe::testing
