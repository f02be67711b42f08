#include "server/app/config.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "server/store/connection.h"
#include "server/store/postgres_store.h"

namespace {

constexpr size_t kMebibyte = 1024 * 1024;

dedupe::PostgresStoreOptions StoreDefaults() { return {}; }

}  // namespace

ABSL_FLAG(std::string, listen_address, "127.0.0.1:7733",
          "Where to serve gRPC, without TLS: HOST:PORT or unix:PATH.");
ABSL_FLAG(
    std::string, database_url, "",
    "The database: a libpq connection string or postgresql:// URI. On the "
    "command line every user of the machine can read it; if it holds a "
    "password use the variable or --database-url-file.");
ABSL_FLAG(std::string, database_url_file, "",
          "A file with that connection string in it, instead.");
ABSL_FLAG(int, connections, static_cast<int>(StoreDefaults().connections),
          "Connections to the database, 1 to 64. Few and busy is faster than "
          "many, because calls that wait are batched.");
ABSL_FLAG(int, batch_max, static_cast<int>(StoreDefaults().batch_calls_max),
          "Calls in one statement at most, 1 to 256. 1 switches batching off.");
ABSL_FLAG(int, queue_max, static_cast<int>(StoreDefaults().queue_calls_max),
          "Calls that may wait for a connection, 1 to 1000000; more are "
          "refused with OVERLOADED.");
ABSL_FLAG(int, queue_mebibytes_max,
          static_cast<int>(StoreDefaults().queue_bytes_max / kMebibyte),
          "Mebibytes that they may hold, 1 to 16384; likewise.");
ABSL_FLAG(int, waiters_max, 10000,
          "Begins that may wait for another attempt to finish, 0 to 1000000; "
          "more are told in_progress at once.");
ABSL_FLAG(absl::Duration, statement_timeout, StoreDefaults().statement_timeout,
          "A statement that takes longer costs its connection, 100ms to 1m; "
          "its calls are repeated on another.");
ABSL_FLAG(absl::Duration, reap_interval, absl::Seconds(1),
          "How often expired records are looked for, 10ms to 1h.");
ABSL_FLAG(int, reap_batch, 500,
          "Records that one transaction deletes at most, 1 to 10000.");
ABSL_FLAG(absl::Duration, drain_delay, absl::Seconds(5),
          "On SIGTERM: how long to go on serving while health says "
          "NOT_SERVING, so that balancers turn away first, 0s to 5m.");
ABSL_FLAG(absl::Duration, drain_grace, absl::Seconds(20),
          "After that: how long calls in flight may take to finish, 0s to 5m.");
ABSL_FLAG(bool, reflection, true,
          "Serve gRPC reflection, so that grpcurl needs no .proto file.");
ABSL_FLAG(std::string, log_format, "json", "json or text, on standard error.");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning or error.");

namespace dedupe {
namespace {

const absl::CommandLineFlag* const kSettings[] = {
    &absl::GetFlagReflectionHandle(FLAGS_listen_address),
    &absl::GetFlagReflectionHandle(FLAGS_database_url),
    &absl::GetFlagReflectionHandle(FLAGS_database_url_file),
    &absl::GetFlagReflectionHandle(FLAGS_connections),
    &absl::GetFlagReflectionHandle(FLAGS_batch_max),
    &absl::GetFlagReflectionHandle(FLAGS_queue_max),
    &absl::GetFlagReflectionHandle(FLAGS_queue_mebibytes_max),
    &absl::GetFlagReflectionHandle(FLAGS_waiters_max),
    &absl::GetFlagReflectionHandle(FLAGS_statement_timeout),
    &absl::GetFlagReflectionHandle(FLAGS_reap_interval),
    &absl::GetFlagReflectionHandle(FLAGS_reap_batch),
    &absl::GetFlagReflectionHandle(FLAGS_drain_delay),
    &absl::GetFlagReflectionHandle(FLAGS_drain_grace),
    &absl::GetFlagReflectionHandle(FLAGS_reflection),
    &absl::GetFlagReflectionHandle(FLAGS_log_format),
    &absl::GetFlagReflectionHandle(FLAGS_log_level),
};

// On the command line words are joined by dashes, which absl does not know.
std::string FlagName(const absl::CommandLineFlag& flag) {
  return absl::StrCat("--", absl::StrReplaceAll(flag.Name(), {{"_", "-"}}));
}

std::string VariableName(const absl::CommandLineFlag& flag) {
  return absl::StrCat("DEDUPE_", absl::AsciiStrToUpper(flag.Name()));
}

// Both names: a message does not know which of them the operator used.
std::string BothNames(const absl::CommandLineFlag& flag) {
  return absl::StrCat(FlagName(flag), " (", VariableName(flag), ")");
}

bool HoldsSecret(const absl::CommandLineFlag& flag) {
  return flag.Name() == "database_url";
}

absl::Status Set(const absl::CommandLineFlag& flag, const std::string& value) {
  std::string error;
  if (absl::FindCommandLineFlag(flag.Name())->ParseFrom(value, &error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(BothNames(flag), " is \"", HoldsSecret(flag) ? "..." : value,
                   "\", which does not parse; the default is \"",
                   flag.DefaultValue(), "\". ", flag.Help()));
}

const absl::CommandLineFlag* FindSetting(absl::string_view flag_name) {
  for (const absl::CommandLineFlag* flag : kSettings) {
    if (FlagName(*flag) == flag_name) return flag;
  }
  return nullptr;
}

absl::Status ReadEnvironment() {
  for (const absl::CommandLineFlag* flag : kSettings) {
    const char* value = std::getenv(VariableName(*flag).c_str());
    if (value == nullptr) continue;
    if (absl::Status status = Set(*flag, value); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// --name=value, --name value, and for the one that is a boolean --name alone.
absl::Status ReadArguments(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string name =
        absl::StrReplaceAll(argument.substr(0, equals), {{"_", "-"}});
    const absl::CommandLineFlag* flag = FindSetting(name);
    // It may be a connection string without its name.
    if (!absl::StartsWith(argument, "--") || absl::StrContains(name, "://")) {
      return absl::InvalidArgumentError(
          "a word on the command line is no setting; write --name=value;"
          " --help shows them all");
    }
    if (flag == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("no setting is called \"", argument.substr(0, equals),
                       "\"; --help shows them all"));
    }
    std::string value = "true";
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (!flag->IsOfType<bool>()) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, " needs a value; write ", name, "=VALUE"));
      }
      value = arguments[i];
    }
    if (absl::Status status = Set(*flag, value); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Checks one setting after another and remembers the first that is wrong.
class Checker {
 public:
  const absl::Status& status() const { return status_; }

  // The bounds are those that the flag's help names.
  template <typename T>
  T Within(const absl::Flag<T>& flag, T least, T most) {
    const T value = absl::GetFlag(flag);
    if (value < least || value > most) Complain(flag);
    return value;
  }

  template <typename T>
  T OneOf(const absl::Flag<std::string>& flag,
          std::initializer_list<std::pair<absl::string_view, T>> choices) {
    const std::string value = absl::GetFlag(flag);
    for (const auto& [name, choice] : choices) {
      if (value == name) return choice;
    }
    Complain(flag);
    return choices.begin()->second;
  }

 private:
  template <typename T>
  void Complain(const absl::Flag<T>& flag) {
    const auto& handle = absl::GetFlagReflectionHandle(flag);
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat(BothNames(handle), " is \"", handle.CurrentValue(),
                     "\", which is out of bounds. ", handle.Help())));
  }

  absl::Status status_;
};

absl::StatusOr<std::string> ReadDatabaseUrl() {
  std::string url = absl::GetFlag(FLAGS_database_url);
  const std::string path = absl::GetFlag(FLAGS_database_url_file);
  if (url.empty() == path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        url.empty() ? "no database is named" : "the database is named twice",
        "; set one of DEDUPE_DATABASE_URL, DEDUPE_DATABASE_URL_FILE,"
        " --database-url-file or --database-url, for example"
        " DEDUPE_DATABASE_URL=\"host=db.internal dbname=dedupe"
        " user=dedupe_server\""));
  }
  if (url.empty()) {
    std::ifstream file(path);
    std::stringstream content;
    content << file.rdbuf();
    url = std::string(absl::StripAsciiWhitespace(content.str()));
    if (url.empty()) {
      // The connection string itself, in place of its file's name, is not
      // shown.
      const bool is_path = path.find_first_of("=@") == std::string::npos;
      return absl::InvalidArgumentError(
          absl::StrCat("--database-url-file (DEDUPE_DATABASE_URL_FILE): ",
                       is_path ? absl::StrCat("\"", path, "\"") : "the file",
                       " cannot be read or is empty"));
    }
  }
  if (absl::Status status = CheckDatabaseUrl(url); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the database's connection string: ", status.message()));
  }
  return url;
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::vector<std::string>& arguments) {
  absl::Status status = ReadEnvironment();
  status.Update(ReadArguments(arguments));
  if (!status.ok()) return status;
  auto database_url = ReadDatabaseUrl();
  if (!database_url.ok()) return database_url.status();

  Checker checker;
  const auto count = [&](const absl::Flag<int>& flag, int least, int most) {
    return static_cast<size_t>(checker.Within(flag, least, most));
  };
  Config config;
  config.listen_address = absl::GetFlag(FLAGS_listen_address);
  config.database_url = *std::move(database_url);
  config.connections = checker.Within(FLAGS_connections, 1, 64);
  config.batch_max = count(FLAGS_batch_max, 1, 256);
  config.queue_max = count(FLAGS_queue_max, 1, 1'000'000);
  config.queue_bytes_max =
      count(FLAGS_queue_mebibytes_max, 1, 16'384) * kMebibyte;
  config.waiters_max = count(FLAGS_waiters_max, 0, 1'000'000);
  config.statement_timeout = checker.Within(
      FLAGS_statement_timeout, absl::Milliseconds(100), absl::Minutes(1));
  config.reap_interval = checker.Within(FLAGS_reap_interval,
                                        absl::Milliseconds(10), absl::Hours(1));
  config.reap_batch = checker.Within(FLAGS_reap_batch, 1, 10'000);
  config.drain_delay =
      checker.Within(FLAGS_drain_delay, absl::ZeroDuration(), absl::Minutes(5));
  config.drain_grace =
      checker.Within(FLAGS_drain_grace, absl::ZeroDuration(), absl::Minutes(5));
  config.reflection = absl::GetFlag(FLAGS_reflection);
  config.log_format = checker.OneOf<LogFormat>(
      FLAGS_log_format,
      {{"json", LogFormat::kJson}, {"text", LogFormat::kText}});
  config.log_level =
      checker.OneOf<Severity>(FLAGS_log_level, {{"debug", Severity::kDebug},
                                                {"info", Severity::kInfo},
                                                {"warning", Severity::kWarning},
                                                {"error", Severity::kError}});
  if (!checker.status().ok()) return checker.status();
  return config;
}

std::string SettingsHelp() {
  std::string help;
  for (const absl::CommandLineFlag* flag : kSettings) {
    absl::StrAppend(&help, "  ", FlagName(*flag), "  ", VariableName(*flag),
                    "\n      ", flag->Help());
    if (const std::string value = flag->DefaultValue(); !value.empty()) {
      absl::StrAppend(&help, " Default: ", value, ".");
    }
    absl::StrAppend(&help, "\n");
  }
  return help;
}

}  // namespace dedupe
