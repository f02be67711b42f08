#include "dedupe/receipts.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dedupe::client {
namespace {

constexpr char kAlreadyRecorded[] = "DR002";
constexpr char kLockNotAvailable[] = "55P03";
constexpr char kNoTransaction[] = "25P01";

// Bytes go as hexadecimal text, because libpqxx 6 and 7 have no type for them
// in common.
constexpr char kVoid[] =
    "SELECT outcome, code, "
    "encode(convert_to(headers::text, 'UTF8'), 'hex') AS headers, "
    "encode(body, 'hex') AS body, body_omitted "
    "FROM dedupe_receipts.void(convert_from(decode($1, 'hex'), 'UTF8'), "
    "convert_from(decode($2, 'hex'), 'UTF8'), $3::bigint, "
    "nullif($4, '')::timestamptz)";

struct Failure {
  enum class Kind {
    // The server has answered with an error: its transaction is aborted.
    kRefused,
    // No answer: whatever was sent last may have been done or not.
    kLost,
    // The transaction was not open, or the connection was busy.
    kMisuse,
    // Something on this side, before anything was sent.
    kLocal,
  };
  Kind kind;
  // Empty if there was none, or libpqxx does not tell.
  std::string sqlstate;
};

Failure FromSqlError(const pqxx::sql_error& error) {
  const std::string& sqlstate = error.sqlstate();
  if (sqlstate == kNoTransaction) return {Failure::Kind::kMisuse, sqlstate};
  // A server that shuts down says so, and may have committed before.
  const bool lost =
      absl::StartsWith(sqlstate, "57P") || absl::StartsWith(sqlstate, "08");
  return {lost ? Failure::Kind::kLost : Failure::Kind::kRefused, sqlstate};
}

// The order matters: libpqxx 6.4 derives none of the first from sql_error, and
// statement_completion_unknown, which means "perhaps", from
// transaction_rollback, which means "no".
std::optional<Failure> CatchFailure(absl::FunctionRef<void()> statements) {
  using Kind = Failure::Kind;
  try {
    statements();
    return std::nullopt;
  } catch (const pqxx::in_doubt_error&) {
    return Failure{Kind::kLost, ""};
  } catch (const pqxx::broken_connection&) {
    return Failure{Kind::kLost, ""};
  } catch (const pqxx::statement_completion_unknown&) {
    return Failure{Kind::kLost, ""};
  } catch (const pqxx::transaction_rollback&) {
    return Failure{Kind::kRefused, "40001"};
  } catch (const pqxx::sql_error& error) {
    return FromSqlError(error);
  } catch (const pqxx::usage_error&) {
    return Failure{Kind::kMisuse, ""};
  } catch (...) {
    return Failure{Kind::kLocal, ""};
  }
}

// Of the text of errors nothing is shown: it quotes values.
absl::Status ToStatus(const Failure& failure) {
  if (failure.sqlstate == kLockNotAvailable) {
    return absl::AbortedError("an earlier attempt's transaction is open");
  }
  if (failure.sqlstate == kAlreadyRecorded) {
    return absl::AlreadyExistsError("the work was committed before");
  }
  switch (failure.kind) {
    case Failure::Kind::kLost:
      return absl::UnavailableError("the database did not answer");
    case Failure::Kind::kRefused:
      return absl::InternalError(
          absl::StrCat("the database refused: SQLSTATE ", failure.sqlstate));
    case Failure::Kind::kMisuse:
      return absl::FailedPreconditionError(
          "the connection is not in the state that receipts need");
    case Failure::Kind::kLocal:
      break;
  }
  return absl::InternalError("the receipt is damaged");
}

std::string HeadersToJson(const std::vector<Header>& headers) {
  nlohmann::json pairs = nlohmann::json::array();
  for (const Header& header : headers) {
    pairs.push_back(nlohmann::json::array({header.name, header.value}));
  }
  // ASCII alone, so that the session's encoding does not matter.
  return pairs.dump(-1, ' ', /*ensure_ascii=*/true);
}

std::vector<Header> HeadersFromJson(const std::string& text) {
  std::vector<Header> headers;
  for (const nlohmann::json& pair : nlohmann::json::parse(text)) {
    headers.push_back(
        {pair.at(0).get<std::string>(), pair.at(1).get<std::string>()});
  }
  return headers;
}

// A literal of text that is UTF-8, whatever the session's client_encoding is:
// two sessions with different ones must not have two receipts for one key.
std::string TextOfSql(absl::string_view utf8) {
  return absl::StrCat("convert_from(decode('", absl::BytesToHexString(utf8),
                      "', 'hex'), 'UTF8')");
}

// As text of SQL, by exec: libpqxx 6.4 runs exec_params in a transaction that
// is over, too, and then a receipt would be kept without its work. For the same
// reason the savepoint: PostgreSQL refuses one outside a transaction, such as
// over a connection that was made anew.
std::string RecordStatement(const AttemptInfo& attempt,
                            const Response& response) {
  const std::string body =
      response.body_omitted
          ? "NULL"
          : absl::StrCat("decode('", absl::BytesToHexString(response.body),
                         "', 'hex')");
  return absl::StrCat(
      "SAVEPOINT dedupe_receipt; RELEASE SAVEPOINT dedupe_receipt; "
      "SELECT dedupe_receipts.record(",
      TextOfSql(attempt.client_id), ", ", TextOfSql(attempt.key), ", ",
      attempt.fence, ", ", attempt.taken_over ? "true" : "false", ", ",
      response.code, ", ", TextOfSql(HeadersToJson(response.headers)),
      "::jsonb, ", body, ", ", response.body_omitted ? "true" : "false", ")");
}

Reconciled ReadAnswer(const pqxx::result& answer) {
  const pqxx::row row = answer.at(0);
  const auto outcome = row.at("outcome").as<std::string>();
  if (outcome == "voided") return NothingHappened{};
  if (outcome == "superseded") {
    return Unknown{
        absl::FailedPreconditionError("a later attempt has this key")};
  }
  Response response;
  response.code = row.at("code").as<int32_t>();
  response.headers = HeadersFromJson(
      absl::HexStringToBytes(row.at("headers").as<std::string>()));
  response.body_omitted = row.at("body_omitted").as<bool>();
  response.body =
      absl::HexStringToBytes(row.at("body").as<std::string>(std::string()));
  return Done{std::move(response)};
}

// The end of one is a savepoint's, and no commit.
void RefuseSubtransaction(const pqxx::transaction_base& transaction) {
  if (dynamic_cast<const pqxx::subtransaction*>(&transaction) != nullptr) {
    throw pqxx::usage_error("a subtransaction");
  }
}

// Of a transaction that is over already, nothing more is to be ended.
void Abort(pqxx::transaction_base& transaction) {
  (void)CatchFailure([&] { transaction.abort(); });
}

}  // namespace

WorkResult CommitWithReceipt(pqxx::transaction_base& transaction,
                             const AttemptInfo& attempt, Response response) {
  Response receipt = response;
  if (receipt.body_omitted || receipt.body.size() > kBodyBytesMax) {
    receipt.body_omitted = true;
    receipt.body.clear();
  }

  // Before the commit, so that a transaction which has failed is never asked to
  // commit: PostgreSQL answers a COMMIT of one with success, having rolled it
  // back.
  std::optional<Failure> failure = CatchFailure([&] {
    RefuseSubtransaction(transaction);
    transaction.exec(RecordStatement(attempt, receipt));
  });
  if (failure.has_value()) {
    Abort(transaction);
    // Then another transaction than this has written a receipt, or is about to:
    // maybe this very attempt's, of which it has not heard.
    if (failure->kind == Failure::Kind::kMisuse ||
        failure->sqlstate == kAlreadyRecorded ||
        failure->sqlstate == kLockNotAvailable) {
      return Unknown{ToStatus(*failure)};
    }
    return NothingHappened{};
  }

  failure = CatchFailure([&] { transaction.commit(); });
  if (!failure.has_value()) return Done{std::move(response)};
  Abort(transaction);
  if (failure->kind == Failure::Kind::kRefused) return NothingHappened{};
  return Unknown{ToStatus(*failure)};
}

Reconciled ReconcileByReceipt(pqxx::connection& connection,
                              const AttemptInfo& attempt) {
  const std::string first_seen_at =
      attempt.first_seen_at.has_value()
          ? absl::FormatTime("%E4Y-%m-%d %H:%M:%E6S+00", *attempt.first_seen_at,
                             absl::UTCTimeZone())
          : std::string();
  Reconciled reconciled = NothingHappened{};
  const std::optional<Failure> failure = CatchFailure([&] {
    pqxx::work transaction(connection);
    // Whatever the database's default is: a stricter one refuses instead of
    // looking again.
    transaction.exec("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    reconciled = ReadAnswer(transaction.exec_params(
        kVoid, absl::BytesToHexString(attempt.client_id),
        absl::BytesToHexString(attempt.key), attempt.fence, first_seen_at));
    // Until then the void marker keeps nobody out.
    transaction.commit();
  });
  if (failure.has_value()) return Unknown{ToStatus(*failure)};
  return reconciled;
}

}  // namespace dedupe::client
