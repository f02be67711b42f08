#include "tests/store/session.h"

#include <libpq-fe.h>

#include <cstdio>
#include <cstdlib>

namespace dedupe::testing {
namespace {

void IgnoreNotice(void*, const PGresult*) {}

Session::Answer Read(PGconn* connection, PGresult* result) {
  Session::Answer answer;
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    const char* sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    answer.message = PQerrorMessage(connection);
    answer.sqlstate =
        PQstatus(connection) == CONNECTION_OK && sqlstate ? sqlstate : "lost";
  }
  for (int row = 0; row < PQntuples(result); ++row) {
    std::vector<std::string>& fields = answer.rows.emplace_back();
    for (int column = 0; column < PQnfields(result); ++column) {
      fields.push_back(PQgetisnull(result, row, column)
                           ? "NULL"
                           : PQgetvalue(result, row, column));
    }
  }
  PQclear(result);
  return answer;
}

}  // namespace

Session::Session(const std::string& url)
    : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_) != CONNECTION_OK) {
    std::fprintf(stderr, "session: %s", PQerrorMessage(connection_));
    std::exit(1);
  }
  PQsetNoticeReceiver(connection_, IgnoreNotice, nullptr);
}

Session::~Session() { PQfinish(connection_); }

Session::Answer Session::Run(const std::string& statements) {
  return Read(connection_, PQexec(connection_, statements.c_str()));
}

Session::Answer Session::RunWith(const std::string& statement,
                                 const std::vector<std::string>& parameters) {
  std::vector<const char*> values;
  values.reserve(parameters.size());
  for (const std::string& parameter : parameters) {
    values.push_back(parameter.c_str());
  }
  return Read(connection_,
              PQexecParams(connection_, statement.c_str(),
                           static_cast<int>(values.size()), nullptr,
                           values.data(), nullptr, nullptr, 0));
}

std::string Session::Value(const std::string& statement) {
  const Answer answer = Run(statement);
  if (!answer.sqlstate.empty()) return answer.sqlstate;
  return answer.rows.empty() ? "no rows" : answer.rows[0][0];
}

int Session::backend_pid() const { return PQbackendPID(connection_); }

}  // namespace dedupe::testing
