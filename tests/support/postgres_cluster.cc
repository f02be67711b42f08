#include "tests/support/postgres_cluster.h"

#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/store/embedded_migrations.h"
#include "server/store/migrator.h"
#include "tests/support/process.h"

namespace dedupe::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kServerUser[] = "postgres";

// Without a cluster nothing can be tested, so there is nothing to return.
[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "test cluster: %s\n", message.c_str());
  std::exit(1);
}

// The newest installed server's programs.
std::string ProgramDirectory() {
  int newest = 0;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql")) {
    int version = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &version) &&
        fs::exists(entry.path() / "bin/initdb")) {
      newest = std::max(newest, version);
    }
  }
  if (newest == 0) Die("no /usr/lib/postgresql/*/bin/initdb");
  return absl::StrCat("/usr/lib/postgresql/", newest, "/bin");
}

void RunAsServerUser(std::vector<std::string> argv) {
  argv[0] = absl::StrCat(ProgramDirectory(), "/", argv[0]);
  if (geteuid() == 0) {
    const std::vector<std::string> prefix = {"runuser", "-u", kServerUser,
                                             "--"};
    argv.insert(argv.begin(), prefix.begin(), prefix.end());
  }
  // Of the checkout's folder the server's user may know nothing.
  const fs::path here = fs::current_path();
  fs::current_path("/");
  const ProcessResult result =
      RunProcess(argv, {{"HOME", "/nonexistent"}, {"LC_ALL", "C.UTF-8"}});
  fs::current_path(here);
  if (result.exit_code != 0) {
    Die(absl::StrCat(absl::StrJoin(argv, " "), ": ", result.standard_output,
                     result.standard_error));
  }
}

}  // namespace

PostgresCluster::PostgresCluster(const Options& options) {
  static std::atomic<int> count{0};
  directory_ = absl::StrCat(ScratchDirectory(), "/pg", ++count);
  fs::create_directory(directory_);
  chmod(directory_.c_str(), 0700);
  if (geteuid() == 0) {
    const passwd* user = getpwnam(kServerUser);
    if (user == nullptr) Die("there is no user postgres");
    if (chown(directory_.c_str(), user->pw_uid, user->pw_gid) != 0) {
      Die("chown");
    }
  }
  RunAsServerUser({"initdb", "--pgdata", directory_ + "/data", "--auth=trust",
                   "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8",
                   "--no-sync"});
  std::ofstream config(directory_ + "/data/postgresql.conf", std::ios::app);
  config << "listen_addresses = ''\n"
         << "unix_socket_directories = '" << directory_ << "'\n"
         << "shared_buffers = 64MB\n"
         << "max_connections = 200\n";
  if (!options.durable) config << "fsync = off\nfull_page_writes = off\n";
  for (const std::string& line : options.settings) config << line << "\n";
  config.close();
  Start();
}

PostgresCluster::~PostgresCluster() {
  if (postmaster_pid() != 0) Stop("immediate");
}

PostgresCluster& PostgresCluster::Shared() {
  static PostgresCluster cluster({});
  return cluster;
}

std::string PostgresCluster::Url(const std::string& database,
                                 const std::string& user) const {
  return absl::StrCat("host=", directory_, " dbname=", database,
                      " user=", user);
}

std::string PostgresCluster::CreateDatabase(const std::string& options) {
  static std::atomic<int> count{0};
  std::string name = absl::StrCat("test_", ++count);
  Sql(Url("postgres"), absl::StrCat("CREATE DATABASE ", name, " ", options));
  return name;
}

std::string PostgresCluster::CreateMigratedDatabase() {
  std::string name = CreateDatabase();
  const auto applied = Migrate(Url(name), EmbeddedMigrations());
  if (!applied.ok()) Die(std::string(applied.status().message()));
  Sql(Url(name),
      "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname ="
      " 'dedupe_server') THEN CREATE ROLE dedupe_server LOGIN; END IF; END $$;"
      " GRANT dedupe_runtime TO dedupe_server");
  return name;
}

void PostgresCluster::Start() {
  RunAsServerUser({"pg_ctl", "--pgdata", directory_ + "/data", "--log",
                   directory_ + "/log", "--wait", "--timeout=60", "start"});
}

void PostgresCluster::Stop(const std::string& mode) {
  RunAsServerUser({"pg_ctl", "--pgdata", directory_ + "/data", "--wait",
                   "--mode", mode, "stop"});
}

void PostgresCluster::KillAll() {
  const std::vector<pid_t> family = Family();
  SignalAll(SIGKILL);
  // A new postmaster refuses to start beside any of them.
  for (const pid_t pid : family) {
    while (kill(pid, 0) == 0) absl::SleepFor(absl::Milliseconds(5));
  }
}

void PostgresCluster::SignalAll(int signal) const {
  for (const pid_t pid : Family()) kill(pid, signal);
}

std::vector<pid_t> PostgresCluster::Family() const {
  const pid_t postmaster = postmaster_pid();
  std::vector<pid_t> family = {postmaster};
  std::ifstream children(
      absl::StrCat("/proc/", postmaster, "/task/", postmaster, "/children"));
  for (pid_t child = 0; children >> child;) family.push_back(child);
  return family;
}

pid_t PostgresCluster::postmaster_pid() const {
  std::ifstream file(directory_ + "/data/postmaster.pid");
  pid_t pid = 0;
  file >> pid;
  return pid;
}

std::string PostgresCluster::log() const {
  std::ifstream file(directory_ + "/log");
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

pqxx::result Sql(const std::string& url, const std::string& statements) {
  pqxx::connection connection(url);
  pqxx::nontransaction session(connection);
  return session.exec(statements);
}

std::string SqlValue(const std::string& url, const std::string& query) {
  const pqxx::result rows = Sql(url, query);
  const pqxx::field field = rows.at(0).at(0);
  return field.is_null() ? "NULL" : field.c_str();
}

}  // namespace dedupe::testing
