// What went wrong in the database, and the one thing to do about it. A lost
// answer must never be taken for a definite one, nor the other way round.
#include "server/store/postgres_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pqxx/except>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace dedupe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kAborted = absl::StatusCode::kAborted;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kInternal = absl::StatusCode::kInternal;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

struct SqlstateCase {
  const char* sqlstate;
  absl::StatusCode code;
  const char* name;
};

class CodeOfSqlstateTest : public ::testing::TestWithParam<SqlstateCase> {};

TEST_P(CodeOfSqlstateTest, IsTheOneThingToDo) {
  EXPECT_EQ(CodeOfSqlstate(GetParam().sqlstate), GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    All, CodeOfSqlstateTest,
    ::testing::Values(
        SqlstateCase{"", kUnavailable, "None"},
        SqlstateCase{"08000", kUnavailable, "ConnectionException"},
        SqlstateCase{"08006", kUnavailable, "ConnectionFailure"},
        SqlstateCase{"0A000", kUnavailable, "CachedPlanChanged"},
        SqlstateCase{"22001", kInvalid, "TextTooLong"},
        SqlstateCase{"22021", kInvalid, "NotInRepertoire"},
        SqlstateCase{"22P02", kInvalid, "TextRepresentation"},
        SqlstateCase{"23502", kInvalid, "NotNull"},
        SqlstateCase{"23505", kInvalid, "Unique"},
        SqlstateCase{"23514", kInvalid, "Check"},
        SqlstateCase{"25001", kUnavailable, "ActiveTransaction"},
        SqlstateCase{"25006", kUnavailable, "ReadOnlyTransaction"},
        SqlstateCase{"25P02", kUnavailable, "FailedTransaction"},
        SqlstateCase{"28000", kInternal, "InvalidAuthorization"},
        SqlstateCase{"28P01", kInternal, "InvalidPassword"},
        SqlstateCase{"34000", kInternal, "InvalidCursor"},
        SqlstateCase{"3D000", kInternal, "NoSuchDatabase"},
        SqlstateCase{"3F000", kInternal, "NoSuchSchema"},
        SqlstateCase{"40001", kAborted, "SerializationFailure"},
        SqlstateCase{"40002", kAborted, "TransactionConstraint"},
        SqlstateCase{"40003", kUnavailable, "CompletionUnknown"},
        SqlstateCase{"40P01", kAborted, "Deadlock"},
        SqlstateCase{"42501", kInternal, "NoPrivilege"},
        SqlstateCase{"42601", kInternal, "Syntax"},
        SqlstateCase{"42703", kInternal, "NoSuchColumn"},
        SqlstateCase{"42883", kInternal, "NoSuchFunction"},
        SqlstateCase{"42P01", kInternal, "NoSuchTable"},
        SqlstateCase{"53000", kExhausted, "NoResources"},
        SqlstateCase{"53100", kExhausted, "DiskFull"},
        SqlstateCase{"53200", kExhausted, "OutOfMemory"},
        SqlstateCase{"53300", kExhausted, "TooManyConnections"},
        SqlstateCase{"54000", kInternal, "ProgramLimit"},
        SqlstateCase{"55P03", kAborted, "LockNotAvailable"},
        SqlstateCase{"55006", kInternal, "ObjectInUse"},
        SqlstateCase{"57014", kUnavailable, "QueryCancelled"},
        SqlstateCase{"57P01", kUnavailable, "AdminShutdown"},
        SqlstateCase{"57P02", kUnavailable, "CrashShutdown"},
        SqlstateCase{"57P03", kUnavailable, "CannotConnectNow"},
        SqlstateCase{"58030", kUnavailable, "InputOutput"},
        SqlstateCase{"DD007", kUnavailable, "IsolationRefused"},
        SqlstateCase{"P0001", kInternal, "Raised"},
        SqlstateCase{"XX000", kUnavailable, "InternalError"},
        SqlstateCase{"XX001", kUnavailable, "DataCorrupted"},
        SqlstateCase{"ZZZZZ", kInternal, "NeverSeen"}),
    [](const auto& tested) { return std::string(tested.param.name); });

// --- Exceptions --------------------------------------------------------------

template <typename Error>
absl::Status Caught(const Error& error) {
  return CatchPostgresError([&error] { throw error; });
}

TEST(CatchPostgresErrorTest, ReturningIsOk) {
  bool called = false;
  EXPECT_TRUE(CatchPostgresError([&called] { called = true; }).ok());
  EXPECT_TRUE(called);
}

// A commit whose answer was lost. None of these may be repeated as if nothing
// had happened, nor given up as if it had failed.
TEST(CatchPostgresErrorTest, LostAnswersAreUnavailable) {
  EXPECT_EQ(Caught(pqxx::in_doubt_error("lost")).code(), kUnavailable);
  EXPECT_EQ(Caught(pqxx::broken_connection("lost")).code(), kUnavailable);
  EXPECT_EQ(Caught(pqxx::too_many_connections("lost")).code(), kUnavailable);
}

// libpqxx derives "perhaps" from transaction_rollback, which means "no".
TEST(CatchPostgresErrorTest, CompletionUnknownIsNoRollback) {
  EXPECT_EQ(Caught(pqxx::statement_completion_unknown("perhaps")).code(),
            kUnavailable);
}

TEST(CatchPostgresErrorTest, RollbacksAreAborted) {
  EXPECT_EQ(Caught(pqxx::transaction_rollback("no")).code(), kAborted);
  EXPECT_EQ(Caught(pqxx::serialization_failure("no")).code(), kAborted);
  EXPECT_EQ(Caught(pqxx::deadlock_detected("no")).code(), kAborted);
}

TEST(CatchPostgresErrorTest, SqlErrorsGoByTheirSqlstate) {
  const auto code_of = [](const char* sqlstate) {
    return Caught(pqxx::sql_error("ERROR:  x", "SELECT 1", sqlstate)).code();
  };
  EXPECT_EQ(code_of("55P03"), kAborted);
  EXPECT_EQ(code_of("25006"), kUnavailable);
  EXPECT_EQ(code_of("53100"), kExhausted);
  EXPECT_EQ(code_of("42883"), kInternal);
  EXPECT_EQ(code_of("22021"), kInvalid);
  EXPECT_EQ(Caught(pqxx::sql_error("ERROR:  x", "SELECT 1", nullptr)).code(),
            kUnavailable);
}

// Subclasses of sql_error with a class of their own.
TEST(CatchPostgresErrorTest, NamedSqlErrorsGoByTheirSqlstateToo) {
  EXPECT_EQ(Caught(pqxx::unique_violation("x", "q", "23505")).code(), kInvalid);
  EXPECT_EQ(Caught(pqxx::data_exception("x", "q", "22001")).code(), kInvalid);
  EXPECT_EQ(Caught(pqxx::feature_not_supported("x", "q", "0A000")).code(),
            kUnavailable);
  EXPECT_EQ(Caught(pqxx::undefined_table("x", "q", "42P01")).code(), kInternal);
  EXPECT_EQ(Caught(pqxx::insufficient_privilege("x", "q", "42501")).code(),
            kInternal);
  EXPECT_EQ(Caught(pqxx::disk_full("x", "q", "53100")).code(), kExhausted);
  EXPECT_EQ(Caught(pqxx::out_of_memory("x", "q", "53200")).code(), kExhausted);
}

// As libpqxx 6.4 throws it: without its SQLSTATE.
TEST(CatchPostgresErrorTest, MissingRightsAreInternal) {
  EXPECT_EQ(Caught(pqxx::insufficient_privilege("x", "q")).code(), kInternal);
}

// A misuse of libpqxx leaves the connection in nobody knows what state.
TEST(CatchPostgresErrorTest, WhateverElseIsThrownIsUnavailable) {
  EXPECT_EQ(Caught(pqxx::failure("x")).code(), kUnavailable);
  EXPECT_EQ(Caught(pqxx::usage_error("x")).code(), kUnavailable);
  EXPECT_EQ(Caught(pqxx::internal_error("x")).code(), kUnavailable);
  EXPECT_EQ(Caught(pqxx::conversion_error("x")).code(), kUnavailable);
  EXPECT_EQ(Caught(pqxx::unexpected_rows("x")).code(), kUnavailable);
  EXPECT_EQ(Caught(std::runtime_error("x")).code(), kUnavailable);
  EXPECT_EQ(Caught(std::bad_alloc()).code(), kUnavailable);
}

// --- Messages ----------------------------------------------------------------

constexpr char kMessage[] =
    "ERROR:  null value in column \"fence\"\n"
    "DETAIL:  Failing row contains (acme, pay-4711, secret).\n"
    "CONTEXT:  PL/pgSQL function dedupe.begin";

void ExpectFirstLineOnly(const absl::Status& status) {
  EXPECT_THAT(std::string(status.message()), HasSubstr("null value"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("DETAIL")));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
}

// DETAIL quotes whole rows, keys and responses with them.
TEST(PostgresErrorMessageTest, DetailsAreLeftOut) {
  ExpectFirstLineOnly(Caught(pqxx::in_doubt_error(kMessage)));
  ExpectFirstLineOnly(Caught(pqxx::broken_connection(kMessage)));
  ExpectFirstLineOnly(Caught(pqxx::statement_completion_unknown(kMessage)));
  ExpectFirstLineOnly(Caught(pqxx::deadlock_detected(kMessage)));
  ExpectFirstLineOnly(Caught(pqxx::sql_error(kMessage, "q", "42883")));
  ExpectFirstLineOnly(Caught(std::runtime_error(kMessage)));
}

TEST(PostgresErrorMessageTest, SqlstateComesFirst) {
  const absl::Status status =
      Caught(pqxx::sql_error("ERROR:  relation is gone", "q", "42P01"));
  EXPECT_EQ(status.message(), "SQLSTATE 42P01: ERROR:  relation is gone");
}

// The first line of a data error quotes the value itself, and so may whatever a
// trigger or a function raises.
TEST(PostgresErrorMessageTest, OfDataErrorsOnlyTheSqlstateIsShown) {
  for (const char* sqlstate : {"22P02", "23505", "P0001"}) {
    const absl::Status status = Caught(pqxx::sql_error(
        "ERROR:  invalid input syntax: \"secret\"", "q", sqlstate));
    EXPECT_EQ(status.message(), std::string("SQLSTATE ") + sqlstate);
  }
}

// The statement holds nothing of a caller's, but it is long.
TEST(PostgresErrorMessageTest, StatementsAreLeftOut) {
  const absl::Status status =
      Caught(pqxx::sql_error("ERROR:  x", "SELECT client_id", "42P01"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("SELECT")));
}

}  // namespace
}  // namespace dedupe
