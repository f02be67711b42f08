// A session with the database as any other program would have one: statements
// as text, SQLSTATEs as they come.
#ifndef DEDUPE_TESTS_STORE_SESSION_H_
#define DEDUPE_TESTS_STORE_SESSION_H_

#include <string>
#include <vector>

// libpq's own, declared by itself so that no test sees its header.
struct pg_conn;

namespace dedupe::testing {

// For one thread at a time.
class Session {
 public:
  struct Answer {
    // Empty if the statement succeeded; "lost" if the connection did not
    // survive it.
    std::string sqlstate;
    std::string message;
    // The last statement's; NULL is "NULL".
    std::vector<std::vector<std::string>> rows;
  };

  // A failure to connect ends the test program.
  explicit Session(const std::string& url);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // One or more statements.
  Answer Run(const std::string& statements);
  // One statement whose parameters have no declared type.
  Answer RunWith(const std::string& statement,
                 const std::vector<std::string>& parameters);
  // The first field, or the SQLSTATE.
  std::string Value(const std::string& statement);

  int backend_pid() const;

 private:
  pg_conn* connection_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_STORE_SESSION_H_
