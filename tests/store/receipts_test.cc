// The receipt kit on a real PostgreSQL: of an attempt that commits and a later
// one that voids it, one wins, and both are told the truth.
#include "dedupe/receipts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/store/session.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"

namespace dedupe::testing {
namespace {

using client::AttemptInfo;
using client::CommitWithReceipt;
using client::Done;
using client::NothingHappened;
using client::ReconcileByReceipt;
using client::Reconciled;
using client::Response;
using client::Unknown;
using client::WorkResult;
using ::testing::_;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ResultOf;
using ::testing::VariantWith;

// Microseconds, as fences are; the record's life begins then.
constexpr int64_t kStart = 1'700'000'000'000'000;

std::string ReadSql(const std::string& name) {
  std::ifstream file(
      absl::StrCat(SourceDirectory(), "/client/receipts/", name));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What the work returned by which the key is settled.
auto IsDone(const Response& response) {
  return VariantWith<Done>(Field(&Done::response, Eq(response)));
}
auto IsNothing() { return VariantWith<NothingHappened>(_); }
auto IsUnknown(absl::StatusCode code) {
  return VariantWith<Unknown>(ResultOf(
      "code", [](const Unknown& unknown) { return unknown.status.code(); },
      Eq(code)));
}

Response Answer(std::string body) {
  return {.code = 201, .headers = {}, .body = std::move(body)};
}

class ReceiptsTest : public ::testing::Test {
 protected:
  // Of the database that all tests share.
  static std::string& url() {
    static std::string url;
    return url;
  }
  static void SetUpTestSuite() {
    PostgresCluster& cluster = PostgresCluster::Shared();
    url() = cluster.Url(cluster.CreateDatabase());
    Sql(url(), ReadSql("receipts.up.sql"));
    Sql(url(),
        "CREATE TABLE charge (key text NOT NULL, amount bigint NOT NULL,"
        " order_ref text UNIQUE DEFERRABLE INITIALLY DEFERRED)");
  }

  // An attempt at this test's key. What has a later number is later.
  static AttemptInfo Attempt(int number, bool taken_over = false) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    AttemptInfo attempt;
    attempt.client_id = "acme";
    attempt.key = test->name();
    attempt.fence = kStart + number;
    attempt.taken_over = taken_over;
    return attempt;
  }
  static AttemptInfo Takeover(int number) {
    AttemptInfo attempt = Attempt(number, /*taken_over=*/true);
    attempt.first_seen_at = absl::FromUnixMicros(kStart);
    return attempt;
  }

  static void Charge(pqxx::transaction_base& transaction,
                     const AttemptInfo& attempt) {
    transaction.exec_params("INSERT INTO charge (key, amount) VALUES ($1, 42)",
                            attempt.key);
  }
  static WorkResult ChargeAndCommit(const AttemptInfo& attempt,
                                    Response response = Answer("charged")) {
    pqxx::connection connection(url());
    pqxx::work transaction(connection);
    Charge(transaction, attempt);
    return CommitWithReceipt(transaction, attempt, std::move(response));
  }
  static Reconciled Reconcile(const AttemptInfo& attempt) {
    pqxx::connection connection(url());
    return ReconcileByReceipt(connection, attempt);
  }

  static std::string Charges(const AttemptInfo& attempt) {
    return SqlValue(url(),
                    absl::StrCat("SELECT count(*) FROM charge WHERE key='",
                                 attempt.key, "'"));
  }
  static std::string Row(const AttemptInfo& attempt) {
    return SqlValue(
        url(), absl::StrCat("SELECT coalesce((SELECT kind || ' ' || fence - ",
                            kStart, " FROM dedupe_receipts.receipt WHERE key='",
                            attempt.key, "'), 'none')"));
  }
  static void Terminate(int backend) {
    // Returns when it is gone.
    Sql(url(),
        absl::StrCat("SELECT pg_terminate_backend(", backend, ", 5000)"));
  }
  // The SQL call that CommitWithReceipt makes, for any session.
  static std::string RecordSql(const AttemptInfo& attempt) {
    return absl::StrCat("SELECT dedupe_receipts.record('acme', '", attempt.key,
                        "', ", attempt.fence, ", false, 201, NULL, 'raw')");
  }
};

// --- Committing --------------------------------------------------------------

TEST_F(ReceiptsTest, WorkAndReceiptCommitTogether) {
  EXPECT_THAT(ChargeAndCommit(Attempt(1)), IsDone(Answer("charged")));
  EXPECT_EQ(Charges(Attempt(1)), "1");
  EXPECT_EQ(Row(Attempt(1)), "receipt 1");
}

TEST_F(ReceiptsTest, VoidedAttemptCommitsNothing) {
  ASSERT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_THAT(ChargeAndCommit(Attempt(1)), IsNothing());
  EXPECT_EQ(Charges(Attempt(1)), "0");
  EXPECT_EQ(Row(Attempt(1)), "void 2");
}

TEST_F(ReceiptsTest, VoidedAttemptIsToldWhy) {
  ASSERT_THAT(Reconcile(Takeover(2)), IsNothing());
  Session session(url());
  EXPECT_EQ(session.Run(RecordSql(Attempt(1))).sqlstate, "DR001");
}

TEST_F(ReceiptsTest, AttemptBehindALaterReceiptCommitsNothing) {
  ASSERT_THAT(ChargeAndCommit(Attempt(2)), IsDone(Answer("charged")));
  EXPECT_THAT(ChargeAndCommit(Attempt(1)), IsNothing());
  EXPECT_EQ(Charges(Attempt(1)), "1");
}

TEST_F(ReceiptsTest, OwnVoidMarkerBecomesTheReceipt) {
  ASSERT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_THAT(ChargeAndCommit(Takeover(2)), IsDone(Answer("charged")));
  EXPECT_EQ(Row(Attempt(2)), "receipt 2");
}

TEST_F(ReceiptsTest, EarlierVoidMarkerIsReplaced) {
  ASSERT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_THAT(ChargeAndCommit(Attempt(3)), IsDone(Answer("charged")));
  EXPECT_EQ(Row(Attempt(3)), "receipt 3");
}

TEST_F(ReceiptsTest, AttemptCommitsOnce) {
  ASSERT_THAT(ChargeAndCommit(Attempt(1)), IsDone(Answer("charged")));
  // Not NothingHappened, which would free the key for a second charge.
  EXPECT_THAT(ChargeAndCommit(Attempt(1)),
              IsUnknown(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(Charges(Attempt(1)), "1");
}

TEST_F(ReceiptsTest, TakeoverThatDidNotLookCommitsNothing) {
  ASSERT_THAT(ChargeAndCommit(Attempt(1)), IsDone(Answer("charged")));
  EXPECT_THAT(ChargeAndCommit(Takeover(2)),
              IsUnknown(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(Charges(Attempt(1)), "1");
}

TEST_F(ReceiptsTest, NewRequestReplacesAnExpiredRecordsReceipt) {
  ASSERT_THAT(ChargeAndCommit(Attempt(1)), IsDone(Answer("charged")));
  EXPECT_THAT(ChargeAndCommit(Attempt(2), Answer("again")),
              IsDone(Answer("again")));
  EXPECT_EQ(Row(Attempt(2)), "receipt 2");
}

TEST_F(ReceiptsTest, ConstraintThatFailsInTheCommitIsNothing) {
  Sql(url(), "INSERT INTO charge VALUES ('other', 1, 'order-1')");
  pqxx::connection connection(url());
  pqxx::work transaction(connection);
  transaction.exec("INSERT INTO charge VALUES ('other', 1, 'order-1')");
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsNothing());
  EXPECT_EQ(Row(Attempt(1)), "none");
}

// PostgreSQL answers the COMMIT of a failed transaction with ROLLBACK, which
// libpqxx 6.4 takes for success.
TEST_F(ReceiptsTest, FailedTransactionIsNothing) {
  pqxx::connection connection(url());
  pqxx::work transaction(connection);
  Charge(transaction, Attempt(1));
  EXPECT_THROW(transaction.exec_params("SELECT 1 / $1::int", 0),
               pqxx::sql_error);
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsNothing());
  EXPECT_EQ(Charges(Attempt(1)), "0");
  EXPECT_EQ(Row(Attempt(1)), "none");
}

// Where exec fails, libpqxx 6.4 ends the transaction at once; exec_params then
// runs all the same, outside of any.
TEST_F(ReceiptsTest, TransactionThatLibpqxxHasEndedIsNeverDone) {
  pqxx::connection connection(url());
  pqxx::work transaction(connection);
  Charge(transaction, Attempt(1));
  EXPECT_THROW(transaction.exec("SELECT 1 / 0"), pqxx::sql_error);
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              Not(IsDone(Answer("charged"))));
  EXPECT_EQ(Row(Attempt(1)), "none");
}

// libpqxx 6.4 likes to connect anew: a receipt over a new connection would be
// one without its work.
TEST_F(ReceiptsTest, ConnectionThatBrokeBeforeIsNeverDone) {
  for (const bool with_parameters : {false, true}) {
    pqxx::connection connection(url());
    pqxx::work transaction(connection);
    Charge(transaction, Attempt(1));
    Terminate(connection.backendpid());
    if (with_parameters) {
      EXPECT_ANY_THROW(transaction.exec_params("SELECT $1", 1));
    } else {
      EXPECT_ANY_THROW(transaction.exec("SELECT 1"));
    }
    EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
                Not(IsDone(Answer("charged"))));
    EXPECT_EQ(Row(Attempt(1)), "none");
  }
}

TEST_F(ReceiptsTest, ConnectionThatBreaksUnnoticedBeforeIsNothing) {
  pqxx::connection connection(url());
  pqxx::work transaction(connection);
  Charge(transaction, Attempt(1));
  Terminate(connection.backendpid());
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsNothing());
  EXPECT_EQ(Row(Attempt(1)), "none");
}

TEST_F(ReceiptsTest, ConnectionThatBreaksInTheCommitIsUnknown) {
  Sql(url(),
      "CREATE TABLE fatal (id int);"
      "CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS $$"
      "BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END"
      "$$;"
      "CREATE CONSTRAINT TRIGGER fatal AFTER INSERT ON fatal DEFERRABLE "
      "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_session()");
  pqxx::connection connection(url());
  pqxx::work transaction(connection);
  transaction.exec("INSERT INTO fatal VALUES (1)");
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsUnknown(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Reconcile(Takeover(2)), IsNothing());
}

TEST_F(ReceiptsTest, SerializationFailureIsNothing) {
  pqxx::connection connection(url());
  pqxx::transaction<pqxx::serializable> transaction(connection);
  Charge(transaction, Attempt(1));
  ASSERT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsNothing());
  EXPECT_EQ(Charges(Attempt(1)), "0");
}

TEST_F(ReceiptsTest, StricterTransactionCommitsToo) {
  pqxx::connection connection(url());
  pqxx::transaction<pqxx::serializable> transaction(connection);
  Charge(transaction, Attempt(1));
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsDone(Answer("charged")));
}

TEST_F(ReceiptsTest, NothingIsRecordedOutsideATransaction) {
  pqxx::connection connection(url());
  pqxx::nontransaction transaction(connection);
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsUnknown(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Row(Attempt(1)), "none");
}

TEST_F(ReceiptsTest, TransactionThatIsOverIsUnknown) {
  pqxx::connection connection(url());
  pqxx::work transaction(connection);
  Charge(transaction, Attempt(1));
  transaction.commit();
  EXPECT_THAT(CommitWithReceipt(transaction, Attempt(1), Answer("charged")),
              IsUnknown(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ReceiptsTest, HeaderThatIsNotTextIsNothing) {
  Response response = Answer("charged");
  response.headers = {{"x", "\xff"}};
  EXPECT_THAT(ChargeAndCommit(Attempt(1), response), IsNothing());
  EXPECT_EQ(Charges(Attempt(1)), "0");
}

// --- What is kept ------------------------------------------------------------

TEST_F(ReceiptsTest, ResponseComesBackByteForByte) {
  Response response = Answer("");
  for (int byte = 0; byte < 256; ++byte) {
    response.body.push_back(static_cast<char>(byte));
  }
  response.code = -7;
  response.headers = {{"link", "a"},
                      {"b", "\"\\ {},\u00e9\U0001f600"},
                      {"Link", ""},
                      {"link", "a"}};
  ASSERT_THAT(ChargeAndCommit(Attempt(1), response), IsDone(response));
  EXPECT_THAT(Reconcile(Takeover(2)), IsDone(response));
}

TEST_F(ReceiptsTest, EmptyBodyIsNotAnOmittedOne) {
  ASSERT_THAT(ChargeAndCommit(Attempt(1), Answer("")), IsDone(Answer("")));
  EXPECT_THAT(Reconcile(Takeover(2)), IsDone(Answer("")));
}

TEST_F(ReceiptsTest, LargestBodyIsKept) {
  const Response response = Answer(std::string(client::kBodyBytesMax, 'x'));
  ASSERT_THAT(ChargeAndCommit(Attempt(1), response), IsDone(response));
  EXPECT_THAT(Reconcile(Takeover(2)), IsDone(response));
}

// --- Reconciling -------------------------------------------------------------

TEST_F(ReceiptsTest, LaterTakeoverReplacesTheMarker) {
  ASSERT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_THAT(Reconcile(Takeover(3)), IsNothing());
  EXPECT_EQ(Row(Attempt(1)), "void 3");
}

TEST_F(ReceiptsTest, EarlierTakeoverIsSuperseded) {
  ASSERT_THAT(Reconcile(Takeover(3)), IsNothing());
  EXPECT_THAT(Reconcile(Takeover(2)),
              IsUnknown(absl::StatusCode::kFailedPrecondition));
  ASSERT_THAT(ChargeAndCommit(Takeover(3)), IsDone(Answer("charged")));
  EXPECT_THAT(Reconcile(Takeover(2)),
              IsUnknown(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ReceiptsTest, ReceiptFromTheRecordsFirstInstantCounts) {
  ASSERT_THAT(ChargeAndCommit(Attempt(0)), IsDone(Answer("charged")));
  EXPECT_THAT(Reconcile(Takeover(2)), IsDone(Answer("charged")));
  EXPECT_EQ(Row(Attempt(0)), "receipt 0");
}

TEST_F(ReceiptsTest, ExpiredRecordsReceiptDoesNotCount) {
  ASSERT_THAT(ChargeAndCommit(Attempt(-1)), IsDone(Answer("charged")));
  EXPECT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_EQ(Row(Attempt(2)), "void 2");
  EXPECT_THAT(ChargeAndCommit(Takeover(2), Answer("new")),
              IsDone(Answer("new")));
}

TEST_F(ReceiptsTest, WithoutFirstSeenEveryReceiptCounts) {
  ASSERT_THAT(ChargeAndCommit(Attempt(-1)), IsDone(Answer("charged")));
  EXPECT_THAT(Reconcile(Attempt(2, /*taken_over=*/true)),
              IsDone(Answer("charged")));
}

TEST_F(ReceiptsTest, OpenTransactionIsWaitedForThenUnknown) {
  Session earlier(url());
  ASSERT_EQ(earlier.Run("BEGIN; " + RecordSql(Attempt(1))).sqlstate, "");
  const absl::Time asked = absl::Now();
  EXPECT_THAT(Reconcile(Takeover(2)), IsUnknown(absl::StatusCode::kAborted));
  EXPECT_THAT(absl::Now() - asked, Ge(absl::Seconds(2)));
  ASSERT_EQ(earlier.Run("COMMIT").sqlstate, "");
  EXPECT_THAT(Reconcile(Takeover(2)), IsDone(Answer("raw")));
}

TEST_F(ReceiptsTest, CommitDuringTheWaitIsFound) {
  Session earlier(url());
  ASSERT_EQ(earlier.Run("BEGIN; " + RecordSql(Attempt(1))).sqlstate, "");
  std::optional<Reconciled> reconciled;
  std::thread takeover([&] { reconciled = Reconcile(Takeover(2)); });
  // Once somebody waits for this transaction.
  ASSERT_EQ(earlier
                .Run("DO $$ BEGIN FOR i IN 1..180 LOOP EXIT WHEN EXISTS ("
                     "SELECT FROM pg_locks WHERE NOT granted);"
                     "PERFORM pg_sleep(0.01); END LOOP; END $$; COMMIT")
                .sqlstate,
            "");
  takeover.join();
  EXPECT_THAT(*reconciled, IsDone(Answer("raw")));
}

TEST_F(ReceiptsTest, TransactionThatDiesIdleIsVoided) {
  Session earlier(url());
  ASSERT_EQ(earlier
                .Run("SET idle_in_transaction_session_timeout = '300ms'; "
                     "BEGIN; " +
                     RecordSql(Attempt(1)))
                .sqlstate,
            "");
  EXPECT_THAT(Reconcile(Takeover(2)), IsNothing());
  EXPECT_THAT(earlier.Run("COMMIT").sqlstate, AnyOf("57P05", "lost"));
  EXPECT_EQ(Row(Attempt(1)), "void 2");
}

TEST_F(ReceiptsTest, BackendKilledBetweenRecordAndCommitIsVoided) {
  Session earlier(url());
  ASSERT_EQ(earlier.Run("BEGIN; " + RecordSql(Attempt(1))).sqlstate, "");
  Terminate(earlier.backend_pid());
  EXPECT_THAT(Reconcile(Takeover(2)), IsNothing());
}

TEST_F(ReceiptsTest, StricterDefaultIsolationLooksAgainToo) {
  ASSERT_THAT(ChargeAndCommit(Attempt(1)), IsDone(Answer("charged")));
  pqxx::connection connection(absl::StrCat(
      url(), " options='-c default_transaction_isolation=serializable'"));
  EXPECT_THAT(ReconcileByReceipt(connection, Takeover(2)),
              IsDone(Answer("charged")));
}

TEST_F(ReceiptsTest, OpenTransactionOfOnesOwnIsUnknown) {
  pqxx::connection connection(url());
  pqxx::work transaction(connection);
  EXPECT_THAT(ReconcileByReceipt(connection, Takeover(2)),
              IsUnknown(absl::StatusCode::kFailedPrecondition));
}

// --- Races -------------------------------------------------------------------

TEST_F(ReceiptsTest, OneOfCommitAndVoidWins) {
  constexpr int kRounds = 200;
  int found = 0;
  int refused = 0;
  pqxx::connection old_connection(url());
  pqxx::connection new_connection(url());
  for (int round = 0; round < kRounds; ++round) {
    AttemptInfo earlier = Attempt(1);
    AttemptInfo later = Takeover(2);
    later.key = earlier.key = absl::StrCat("race-", round);
    std::optional<WorkResult> committed;
    std::optional<Reconciled> reconciled;
    std::barrier start(2);
    std::thread old_attempt([&] {
      pqxx::work transaction(old_connection);
      Charge(transaction, earlier);
      start.arrive_and_wait();
      // Spread over more than the time that the other one takes.
      absl::SleepFor(absl::Microseconds(round % 20 * 100));
      committed = CommitWithReceipt(transaction, earlier, Answer("charged"));
    });
    std::thread new_attempt([&] {
      start.arrive_and_wait();
      reconciled = ReconcileByReceipt(new_connection, later);
    });
    old_attempt.join();
    new_attempt.join();

    const bool is_found = std::holds_alternative<Done>(*reconciled);
    ASSERT_THAT(*reconciled, AnyOf(IsDone(Answer("charged")), IsNothing()));
    ASSERT_THAT(*committed, is_found ? ::testing::Matcher<WorkResult>(
                                           IsDone(Answer("charged")))
                                     : IsNothing());
    ASSERT_EQ(Charges(earlier), is_found ? "1" : "0");
    ++(is_found ? found : refused);
  }
  // Else nothing has raced.
  EXPECT_GT(found, 0);
  EXPECT_GT(refused, 0);
  RecordProperty("found", found);
  RecordProperty("refused", refused);
}

TEST_F(ReceiptsTest, OfTwoTakeoversTheEarlierNeverCommits) {
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    AttemptInfo earlier = Takeover(2);
    AttemptInfo later = Takeover(3);
    earlier.key = later.key = absl::StrCat("takeovers-", round);
    std::optional<Reconciled> answer_to_later;
    std::barrier start(2);
    std::jthread other([&] {
      start.arrive_and_wait();
      answer_to_later = Reconcile(later);
    });
    start.arrive_and_wait();
    ASSERT_THAT(
        Reconcile(earlier),
        AnyOf(IsNothing(), IsUnknown(absl::StatusCode::kFailedPrecondition)));
    other.join();
    ASSERT_THAT(*answer_to_later, IsNothing());
    ASSERT_THAT(ChargeAndCommit(earlier), IsNothing());
    ASSERT_THAT(ChargeAndCommit(later), IsDone(Answer("charged")));
  }
}

// --- The schema --------------------------------------------------------------

TEST_F(ReceiptsTest, SchemaGoesUpAndDownAndUp) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const std::string url = cluster.Url(cluster.CreateDatabase());
  const std::string left =
      "SELECT count(*) FROM pg_namespace WHERE nspname = 'dedupe_receipts'";
  Sql(url, ReadSql("receipts.up.sql"));
  EXPECT_EQ(SqlValue(url, left), "1");
  Sql(url, ReadSql("receipts.down.sql"));
  EXPECT_EQ(SqlValue(url, left), "0");
  Sql(url, ReadSql("receipts.up.sql"));
  EXPECT_EQ(Session(url).Run(RecordSql(Attempt(1))).sqlstate, "");
}

TEST_F(ReceiptsTest, ServiceNeedsTheTwoFunctionsAlone) {
  Sql(url(),
      "CREATE ROLE shop LOGIN; GRANT USAGE ON SCHEMA dedupe_receipts TO shop");
  const std::string database = SqlValue(url(), "SELECT current_database()");
  Session shop(PostgresCluster::Shared().Url(database, "shop"));
  EXPECT_EQ(shop.Run(RecordSql(Attempt(1))).sqlstate, "42501");
  Sql(url(),
      "GRANT EXECUTE ON FUNCTION dedupe_receipts.record(text, text, bigint, "
      "boolean, integer, jsonb, bytea, boolean), "
      "dedupe_receipts.void(text, text, bigint, timestamptz) TO shop");
  EXPECT_EQ(shop.Run(RecordSql(Attempt(1))).sqlstate, "");
  EXPECT_EQ(shop.Run("SELECT * FROM dedupe_receipts.receipt").sqlstate,
            "42501");
}

TEST_F(ReceiptsTest, NothingBeyondTheBoundsIsStored) {
  Session session(url());
  const std::string call = "SELECT dedupe_receipts.record(";
  for (const char* arguments : {
           "'', 'k', 1, false, 201, NULL, ''",
           "'acme', repeat('k', 256), 1, false, 201, NULL, ''",
           "'acme', 'k', 0, false, 201, NULL, ''",
           "'acme', 'k', 1, false, NULL, NULL, ''",
           "'acme', 'k', 1, false, 201, NULL, NULL",
           "'acme', 'k', 1, false, 201, NULL, '', true",
           "'acme', 'k', 1, false, 201, NULL, repeat('x', 262145)::bytea",
           "'acme', 'k', 1, false, 201, '{}', ''",
           "'acme', 'k', 1, false, 201, '[\"a\"]', ''",
           "'acme', 'k', 1, false, 201, '[[\"a\"]]', ''",
           "'acme', 'k', 1, false, 201, '[[\"a\", 1]]', ''",
       }) {
    EXPECT_EQ(session.Run(absl::StrCat(call, arguments, ")")).sqlstate, "23514")
        << arguments;
  }
}

TEST_F(ReceiptsTest, MissingSchemaIsToldApart) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  pqxx::connection connection(cluster.Url(cluster.CreateDatabase()));
  const Reconciled reconciled = ReconcileByReceipt(connection, Takeover(2));
  ASSERT_THAT(reconciled, IsUnknown(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(std::get<Unknown>(reconciled).status.message()),
              HasSubstr("3F000"));
}

}  // namespace
}  // namespace dedupe::testing
