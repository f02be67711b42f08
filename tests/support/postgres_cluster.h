// A PostgreSQL of the tests' own: thrown away afterwards, reachable by a Unix
// socket alone. As root it runs as the user postgres, because PostgreSQL
// refuses root.
#ifndef DEDUPE_TESTS_SUPPORT_POSTGRES_CLUSTER_H_
#define DEDUPE_TESTS_SUPPORT_POSTGRES_CLUSTER_H_

#include <sys/types.h>

#include <pqxx/pqxx>
#include <string>
#include <vector>

namespace dedupe::testing {

class PostgresCluster {
 public:
  struct Options {
    // Real fsync, for what is about crashes or speed. Off: several times
    // faster.
    bool durable = false;
    // Further lines of postgresql.conf, such as "max_connections = 20".
    std::vector<std::string> settings;
  };

  // Made and started; a failure ends the test program with a message.
  explicit PostgresCluster(const Options& options);
  ~PostgresCluster();
  PostgresCluster(const PostgresCluster&) = delete;
  PostgresCluster& operator=(const PostgresCluster&) = delete;

  // One for the whole test program, not durable, started at the first call.
  static PostgresCluster& Shared();

  // For the pair (database, user) a connection string; users are trusted.
  std::string Url(const std::string& database,
                  const std::string& user = "postgres") const;
  // An empty database with a name of its own; returns the name.
  std::string CreateDatabase(const std::string& options = "");
  // The same, migrated by the embedded migrations, and with the login role
  // dedupe_server as a member of dedupe_runtime.
  std::string CreateMigratedDatabase();

  void Start();
  // pg_ctl's modes: smart, fast, immediate.
  void Stop(const std::string& mode);
  // The postmaster and all its children get a SIGKILL, as in a crash.
  void KillAll();
  // To the postmaster and all its children: SIGSTOP makes of it a machine whose
  // disk hangs, until SIGCONT.
  void SignalAll(int signal) const;
  pid_t postmaster_pid() const;

  const std::string& socket_directory() const { return directory_; }
  std::string log() const;

 private:
  // The postmaster and its children.
  std::vector<pid_t> Family() const;

  std::string directory_;
};

// Runs statements in a session of its own, as the superuser, in autocommit.
pqxx::result Sql(const std::string& url, const std::string& statements);
// The one field that a query returns, as text; "NULL" for NULL.
std::string SqlValue(const std::string& url, const std::string& query);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_POSTGRES_CLUSTER_H_
