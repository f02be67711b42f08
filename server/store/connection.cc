#include "server/store/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/store/postgres_error.h"
#include "server/store/statements.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

// What a connection string that says nothing about them gets. Seconds, but for
// tcp_user_timeout, which is in milliseconds: a peer that has vanished is
// noticed within 10 s rather than hours.
constexpr std::pair<const char*, const char*> kConnectionDefaults[] = {
    {"application_name", "dedupe"}, {"connect_timeout", "3"},
    {"keepalives_idle", "10"},      {"keepalives_interval", "5"},
    {"keepalives_count", "3"},      {"tcp_user_timeout", "10000"},
    {"client_encoding", "UTF8"},
};

// Whether libpq takes a part of the password for the host, the port or the
// database, all of which its messages show: because an "@" or "/" in it is not
// escaped, or because the host is missing.
bool IsMisread(absl::string_view url,
               const std::map<std::string, std::string>& values) {
  if (absl::ConsumePrefix(&url, "postgresql://") ||
      absl::ConsumePrefix(&url, "postgres://")) {
    url = url.substr(0, url.find('?'));
    const size_t last_at = url.rfind('@');
    if (last_at != url.npos && url.find_first_of("@/") < last_at) return true;
  }
  const auto port = values.find("port");
  return port != values.end() &&
         port->second.find_first_not_of("0123456789,") != std::string::npos;
}

// Of either form of connection string, what it sets.
absl::StatusOr<std::map<std::string, std::string>> ParseDatabaseUrl(
    const std::string& database_url) {
  char* error = nullptr;
  PQconninfoOption* options = PQconninfoParse(database_url.c_str(), &error);
  const absl::Cleanup free_all = [&] {
    PQconninfoFree(options);
    PQfreemem(error);
  };
  if (options == nullptr) {
    return absl::InvalidArgumentError(
        "not a connection string; write for example"
        " \"host=db.internal dbname=dedupe user=dedupe_server\" or"
        " \"postgresql://dedupe_server@db.internal/dedupe\" (its text is not"
        " shown, because it may hold a password)");
  }
  std::map<std::string, std::string> values;
  for (const PQconninfoOption* o = options; o->keyword != nullptr; ++o) {
    if (o->val != nullptr) values[o->keyword] = o->val;
  }
  if (IsMisread(database_url, values)) {
    return absl::InvalidArgumentError(
        "the port is no number, or there is an \"@\" or \"/\" too many; in a"
        " password write them as %40 and %2F (the text is not shown, because"
        " it may hold one)");
  }
  return values;
}

std::string WithDefaults(std::map<std::string, std::string> values) {
  for (const auto& [keyword, value] : kConnectionDefaults) {
    values.emplace(keyword, value);
  }
  std::string conninfo;
  for (const auto& [keyword, value] : values) {
    absl::StrAppend(&conninfo, keyword, "='",
                    absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"'", "\\'"}}),
                    "' ");
  }
  return conninfo;
}

}  // namespace

// libpqxx silences all notices unless somebody listens.
class Connection::NoticeListener : public pqxx::errorhandler {
 public:
  using pqxx::errorhandler::errorhandler;

  bool operator()(const char message[]) noexcept override {
    const absl::string_view text(message);
    // PostgreSQL then reports success for a commit that its standbys may lack.
    if (absl::StrContains(text, "canceling wait for synchronous replication")) {
      replication_wait_cancelled_ = true;
    }
    // Its severity alone: a trigger's notice may quote anything.
    Log(Severity::kWarning, "database_notice",
        {{"level", std::string(text.substr(0, text.find(':')))},
         {"replication_wait_cancelled", replication_wait_cancelled_}});
    return false;  // Nobody else needs to hear.
  }

  bool TakeReplicationWaitCancelled() {
    return std::exchange(replication_wait_cancelled_, false);
  }

 private:
  bool replication_wait_cancelled_ = false;
};

absl::Status CheckDatabaseUrl(const std::string& database_url) {
  return ParseDatabaseUrl(database_url).status();
}

Connection::Connection(const std::string& conninfo) : connection_(conninfo) {
#if PQXX_VERSION_MAJOR < 7
  // libpqxx 6 would connect anew by itself, in the middle of a statement. The
  // call is deprecated because libpqxx 7 never does.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection_.inhibit_reactivation(true);
#pragma GCC diagnostic pop
#endif
  socket_ = fcntl(connection_.sock(), F_DUPFD_CLOEXEC, 0);
  notices_ = std::make_unique<NoticeListener>(connection_);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(
    const std::string& database_url) {
  auto values = ParseDatabaseUrl(database_url);
  if (!values.ok()) return values.status();
  std::unique_ptr<Connection> connection;
  absl::Status status = CatchPostgresError([&] {
    connection.reset(new Connection(WithDefaults(*std::move(values))));
  });
  if (!status.ok()) return absl::UnavailableError(status.message());
  return connection;
}

Connection::~Connection() {
  // A peer that does not read could otherwise hold up the farewell.
  Cut();
  if (socket_ >= 0) close(socket_);
}

absl::StatusOr<pqxx::result> Connection::Execute(
    const char* statement, const SqlParameters& parameters) {
  pqxx::result result;
  absl::Status status =
      CatchPostgresError([&] { RunStatement(statement, parameters, result); });
  if (notices_->TakeReplicationWaitCancelled()) {
    return absl::UnavailableError("the wait for the standbys was cancelled");
  }
  if (status.ok()) return result;
  if (needs_explicit_transaction_.value_or(false) &&
      !absl::IsUnavailable(status)) {
    const absl::Status ended = CatchPostgresError([&] {
      pqxx::nontransaction session(connection_);
      session.exec0(kRollback);
    });
    if (!ended.ok()) return absl::UnavailableError(ended.message());
  }
  return status;
}

void Connection::RunStatement(const char* statement,
                              const SqlParameters& parameters,
                              pqxx::result& result) {
  // Without a transaction of libpqxx's: one round trip, not three.
  pqxx::nontransaction session(connection_);
  if (!needs_explicit_transaction_.has_value()) {
    const pqxx::row isolation = session.exec1(kSessionIsolation);
    needs_explicit_transaction_ =
        absl::string_view(isolation[0].c_str()) != "read committed";
  }
  if (*needs_explicit_transaction_) session.exec0(kBeginReadCommitted);
  result = session.exec_params(statement,
                               pqxx::prepare::make_dynamic_params(parameters));
  if (*needs_explicit_transaction_) session.exec0(kCommit);
}

absl::Status Connection::Transact(
    absl::FunctionRef<void(pqxx::work&)> statements) {
  return CatchPostgresError([&] {
    pqxx::work transaction(connection_);
    statements(transaction);
    transaction.commit();
  });
}

bool Connection::IsStale() const {
  char first = 0;
  const ssize_t length = recv(socket_, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (length < 0) return errno != EAGAIN && errno != EINTR;
  // What a server may send unasked: a changed setting, a notice. An error is
  // its farewell; a TLS record cannot be read, and is rare enough.
  return length == 0 || (first != 'S' && first != 'N' && first != 'A');
}

void Connection::Cut() {
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
}

}  // namespace dedupe
