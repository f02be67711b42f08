#include "server/app/settings.h"

#include <cstdlib>

#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "server/store/postgres_store.h"

namespace {

dedupe::PostgresStoreOptions StoreDefaults() { return {}; }

}  // namespace

ABSL_FLAG(std::string, listen_address, "127.0.0.1:7733",
          "Where to serve gRPC: HOST:PORT or unix:PATH. Beyond loopback and "
          "Unix sockets it needs TLS, or --plaintext-from-network.");
ABSL_FLAG(std::string, tls_certificate_file, "",
          "PEM file of the certificate to serve TLS with, and of those between "
          "it and its CA. Looked at again and again: a new one that is fit is "
          "served from then on.");
ABSL_FLAG(std::string, tls_key_file, "", "PEM file of its private key.");
ABSL_FLAG(std::string, tls_client_ca_file, "",
          "PEM file of the CAs whose certificates callers may show. Empty: "
          "callers are not asked for certificates.");
ABSL_FLAG(std::string, tls_client_crl_file, "",
          "PEM file of those CAs' lists of revoked certificates.");
ABSL_FLAG(std::string, tls_client_certificates, "require",
          "require or optional: whether a caller must show a certificate, or "
          "may have a token instead. Counts with --tls-client-ca-file.");
ABSL_FLAG(absl::Duration, tls_reload_interval, absl::Seconds(10),
          "How often the files are looked at, 100ms to 1h; SIGHUP looks at "
          "once.");
ABSL_FLAG(bool, plaintext_from_network, false,
          "Serve without TLS to whoever can reach the address, tokens and "
          "responses readable on the way. For networks that encrypt by "
          "themselves.");
ABSL_FLAG(std::string, authentication, "auto",
          "required: only principals with a token or certificate are heard. "
          "none: everybody may do everything. auto: none where only this "
          "machine can connect and there is no TLS, else required.");
ABSL_FLAG(int, connections_max, 0,
          "Connections of callers, 0 to 1000000; more are closed at once. 0: "
          "as many as the limit of open files has room for.");
ABSL_FLAG(int, calls_in_flight_max, 20'000,
          "Calls at a time, waiting ones included, 1 to 1000000; more are "
          "refused with OVERLOADED.");
ABSL_FLAG(absl::Duration, connection_age_max, absl::Minutes(10),
          "After that, give or take a tenth, a connection is asked to go, so "
          "that callers spread over new servers and show their certificates "
          "anew, 1s to 24h.");
ABSL_FLAG(absl::Duration, connection_age_grace, absl::Seconds(70),
          "How long its calls may still take then, 1s to 1h; longer than the "
          "longest call is.");
ABSL_FLAG(std::string, metrics_address, "",
          "HOST:PORT where Prometheus reads /metrics. Empty: nowhere.");
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
          static_cast<int>(StoreDefaults().queue_bytes_max / dedupe::kMebibyte),
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
    &absl::GetFlagReflectionHandle(FLAGS_tls_certificate_file),
    &absl::GetFlagReflectionHandle(FLAGS_tls_key_file),
    &absl::GetFlagReflectionHandle(FLAGS_tls_client_ca_file),
    &absl::GetFlagReflectionHandle(FLAGS_tls_client_crl_file),
    &absl::GetFlagReflectionHandle(FLAGS_tls_client_certificates),
    &absl::GetFlagReflectionHandle(FLAGS_tls_reload_interval),
    &absl::GetFlagReflectionHandle(FLAGS_plaintext_from_network),
    &absl::GetFlagReflectionHandle(FLAGS_authentication),
    &absl::GetFlagReflectionHandle(FLAGS_connections_max),
    &absl::GetFlagReflectionHandle(FLAGS_calls_in_flight_max),
    &absl::GetFlagReflectionHandle(FLAGS_connection_age_max),
    &absl::GetFlagReflectionHandle(FLAGS_connection_age_grace),
    &absl::GetFlagReflectionHandle(FLAGS_metrics_address),
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

}  // namespace

absl::Status ReadSettings(const std::vector<std::string>& arguments) {
  absl::Status status = ReadEnvironment();
  status.Update(ReadArguments(arguments));
  return status;
}

std::string BothNames(const absl::CommandLineFlag& flag) {
  return absl::StrCat(FlagName(flag), " (", VariableName(flag), ")");
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
