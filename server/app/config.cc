#include "server/app/config.h"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/app/settings.h"
#include "server/store/connection.h"

namespace dedupe {
namespace {

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

absl::StatusOr<Config::Tls> ReadTls(Checker& checker) {
  Config::Tls tls;
  tls.files = {.certificate = absl::GetFlag(FLAGS_tls_certificate_file),
               .key = absl::GetFlag(FLAGS_tls_key_file),
               .client_ca = absl::GetFlag(FLAGS_tls_client_ca_file),
               .client_crl = absl::GetFlag(FLAGS_tls_client_crl_file)};
  tls.client_certificates = checker.OneOf<ClientCertificates>(
      FLAGS_tls_client_certificates,
      {{"require", ClientCertificates::kRequire},
       {"optional", ClientCertificates::kOptional}});
  tls.reload_interval = checker.Within(FLAGS_tls_reload_interval,
                                       absl::Milliseconds(100), absl::Hours(1));
  if (tls.files.certificate.empty() != tls.files.key.empty()) {
    return absl::InvalidArgumentError(
        "one of --tls-certificate-file (DEDUPE_TLS_CERTIFICATE_FILE) and"
        " --tls-key-file (DEDUPE_TLS_KEY_FILE) is set; TLS needs both");
  }
  if (tls.files.certificate.empty() && !tls.files.client_ca.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca-file (DEDUPE_TLS_CLIENT_CA_FILE) is set and"
        " --tls-certificate-file is not: callers show certificates only where"
        " there is TLS");
  }
  if (tls.files.client_ca.empty() && !tls.files.client_crl.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-crl-file (DEDUPE_TLS_CLIENT_CRL_FILE) is set and"
        " --tls-client-ca-file is not: the lists are of its CAs");
  }
  return tls;
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::vector<std::string>& arguments) {
  if (absl::Status status = ReadSettings(arguments); !status.ok()) {
    return status;
  }
  auto database_url = ReadDatabaseUrl();
  if (!database_url.ok()) return database_url.status();

  Checker checker;
  const auto count = [&](const absl::Flag<int>& flag, int least, int most) {
    return static_cast<size_t>(checker.Within(flag, least, most));
  };
  Config config;
  config.listen_address = absl::GetFlag(FLAGS_listen_address);
  auto tls = ReadTls(checker);
  if (!tls.ok()) return tls.status();
  config.tls = *std::move(tls);
  config.plaintext_from_network = absl::GetFlag(FLAGS_plaintext_from_network);
  config.authentication = checker.OneOf<Authentication>(
      FLAGS_authentication, {{"auto", Authentication::kAuto},
                             {"required", Authentication::kRequired},
                             {"none", Authentication::kNone}});
  config.connections_max = checker.Within(FLAGS_connections_max, 0, 1'000'000);
  config.calls_in_flight_max =
      checker.Within(FLAGS_calls_in_flight_max, 1, 1'000'000);
  config.connection_age_max = checker.Within(FLAGS_connection_age_max,
                                             absl::Seconds(1), absl::Hours(24));
  config.connection_age_grace = checker.Within(
      FLAGS_connection_age_grace, absl::Seconds(1), absl::Hours(1));
  config.metrics_address = absl::GetFlag(FLAGS_metrics_address);
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

}  // namespace dedupe
