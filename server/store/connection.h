// One connection to the database. It lives until the first error and is never
// revived: the batcher makes a new one.
#ifndef DEDUPE_SERVER_STORE_CONNECTION_H_
#define DEDUPE_SERVER_STORE_CONNECTION_H_

#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dedupe {

// A parameter of a statement, in PostgreSQL's text form.
using SqlParameters = std::vector<std::string>;

// OK, or INVALID_ARGUMENT with a message that does not show the string, which
// may hold a password.
absl::Status CheckDatabaseUrl(const std::string& database_url);

class Connection {
 public:
  // Connects, which takes as long as the network does, within the string's
  // connect_timeout (3 s for each host if it names none). UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(
      const std::string& database_url);

  // Closes at once, without waiting for the server.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Runs one statement as a transaction of its own at read committed, whatever
  // the role's or the database's default. Blocks until the server has answered
  // or Cut() is called. Errors are those of postgres_error.h; after UNAVAILABLE
  // the connection must be thrown away.
  absl::StatusOr<pqxx::result> Execute(const char* statement,
                                       const SqlParameters& parameters);

  // Runs several statements as one transaction (the migrator).
  absl::Status Transact(absl::FunctionRef<void(pqxx::work&)> statements);

  // Whether the server has hung up while nothing was asked of it, as in a
  // restart: then nothing needs to be sent to find out.
  bool IsStale() const;

  // From any thread: ends whatever Execute is waiting for, and the connection
  // with it. Nothing is cancelled in the database, where a cancelled wait for a
  // standby would look like success.
  void Cut();

 private:
  // Hears what the server says beside its answers.
  class NoticeListener;

  explicit Connection(const std::string& conninfo);

  void RunStatement(const char* statement, const SqlParameters& parameters,
                    pqxx::result& result);

  pqxx::connection connection_;
  std::unique_ptr<NoticeListener> notices_;
  // A descriptor of our own for libpq's socket: libpq closes its own when the
  // connection breaks, and somebody else may have that number by the time of
  // Cut().
  int socket_ = -1;
  // Where the role's default is another isolation level, each statement needs a
  // transaction of its own making: three round trips instead of one. Asked at
  // the first statement, because only then the connection can be cut.
  std::optional<bool> needs_explicit_transaction_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_CONNECTION_H_
