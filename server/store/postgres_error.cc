#include "server/store/postgres_error.h"

#include <iterator>
#include <pqxx/except>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dedupe {
namespace {

absl::string_view FirstLine(absl::string_view text) {
  return text.substr(0, text.find('\n'));
}

absl::Status FromSqlError(const pqxx::sql_error& error) {
  const absl::string_view sqlstate(error.sqlstate());
  const absl::StatusCode code = CodeOfSqlstate(sqlstate);
  // A data error's first line quotes the value, and so may anything that a
  // function or a trigger raises.
  if (code == absl::StatusCode::kInvalidArgument ||
      absl::StartsWith(sqlstate, "P0")) {
    return absl::Status(code, absl::StrCat("SQLSTATE ", sqlstate));
  }
  return absl::Status(
      code, absl::StrCat("SQLSTATE ", sqlstate, ": ", FirstLine(error.what())));
}

}  // namespace

absl::StatusCode CodeOfSqlstate(absl::string_view sqlstate) {
  struct Rule {
    absl::string_view prefix;
    absl::StatusCode code;
  };
  // The first that fits. Lock not available, deadlock, serialization failure;
  // statement completion unknown; a read-only transaction; an isolation level
  // that dedupe.begin refuses, which a new connection finds out.
  static constexpr Rule kRules[] = {
      {"55P03", absl::StatusCode::kAborted},
      {"40003", absl::StatusCode::kUnavailable},
      {"40", absl::StatusCode::kAborted},
      {"25", absl::StatusCode::kUnavailable},
      {"DD007", absl::StatusCode::kUnavailable},
      // Connection exceptions, operator intervention (shutdown, cancel), system
      // errors, internal errors, a cached plan that does not fit any more.
      {"08", absl::StatusCode::kUnavailable},
      {"57", absl::StatusCode::kUnavailable},
      {"58", absl::StatusCode::kUnavailable},
      {"XX", absl::StatusCode::kUnavailable},
      {"0A000", absl::StatusCode::kUnavailable},
      // Too many connections is for a while too, and disk full, out of memory.
      {"53", absl::StatusCode::kResourceExhausted},
      // What does not exist, what is not granted, what does not parse.
      {"42", absl::StatusCode::kInternal},
      {"3", absl::StatusCode::kInternal},
      {"28", absl::StatusCode::kInternal},
      {"22", absl::StatusCode::kInvalidArgument},
      {"23", absl::StatusCode::kInvalidArgument},
  };
  for (const Rule& rule : kRules) {
    if (absl::StartsWith(sqlstate, rule.prefix)) return rule.code;
  }
  // libpqxx gives no SQLSTATE where the server had no time to send one.
  return sqlstate.empty() ? absl::StatusCode::kUnavailable
                          : absl::StatusCode::kInternal;
}

absl::Status CatchPostgresError(absl::FunctionRef<void()> call) {
  // The order matters: libpqxx 6.4 derives none of the first from sql_error,
  // and statement_completion_unknown, which means "perhaps", from
  // transaction_rollback, which means "no".
  try {
    call();
    return absl::OkStatus();
  } catch (const pqxx::in_doubt_error& error) {
    return absl::UnavailableError(FirstLine(error.what()));
  } catch (const pqxx::broken_connection& error) {
    return absl::UnavailableError(FirstLine(error.what()));
  } catch (const pqxx::statement_completion_unknown& error) {
    return absl::UnavailableError(FirstLine(error.what()));
  } catch (const pqxx::transaction_rollback& error) {
    return absl::AbortedError(FirstLine(error.what()));
  } catch (const pqxx::insufficient_privilege& error) {
    // libpqxx 6.4 gives this one, alone of all, no SQLSTATE.
    return absl::InternalError(FirstLine(error.what()));
  } catch (const pqxx::sql_error& error) {
    return FromSqlError(error);
  } catch (const std::exception& error) {
    // A misuse of libpqxx: the connection's state is anybody's guess.
    return absl::UnavailableError(FirstLine(error.what()));
  }
}

}  // namespace dedupe
