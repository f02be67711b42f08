// Runs LoadConfig in a process of its own, because flags are global: each
// process can do it once.
#ifndef DEDUPE_TESTS_UNIT_APP_LOAD_IN_CHILD_H_
#define DEDUPE_TESTS_UNIT_APP_LOAD_IN_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/app/config.h"
#include "server/app/settings.h"
#include "tests/support/process.h"

namespace dedupe::testing {

// A Config as text, for the way from one process to another: each field by its
// name. Of a refusal only "code" and "error".
using Loaded = std::map<std::string, std::string>;

inline Loaded Describe(const absl::StatusOr<Config>& config) {
  if (!config.ok()) {
    return {{"code", absl::StatusCodeToString(config.status().code())},
            {"error", std::string(config.status().message())}};
  }
  return {
      {"listen_address", config->listen_address},
      {"database_url", config->database_url},
      {"connections", absl::StrCat(config->connections)},
      {"batch_max", absl::StrCat(config->batch_max)},
      {"queue_max", absl::StrCat(config->queue_max)},
      {"tls_certificate_file", config->tls.files.certificate},
      {"tls_key_file", config->tls.files.key},
      {"tls_client_ca_file", config->tls.files.client_ca},
      {"tls_client_crl_file", config->tls.files.client_crl},
      {"tls_client_certificates",
       config->tls.client_certificates == ClientCertificates::kRequire
           ? "require"
           : "optional"},
      {"tls_reload_interval",
       absl::FormatDuration(config->tls.reload_interval)},
      {"plaintext_from_network",
       config->plaintext_from_network ? "true" : "false"},
      {"authentication",
       absl::StrCat(static_cast<int>(config->authentication))},
      {"connections_max", absl::StrCat(config->connections_max)},
      {"calls_in_flight_max", absl::StrCat(config->calls_in_flight_max)},
      {"connection_age_max", absl::FormatDuration(config->connection_age_max)},
      {"connection_age_grace",
       absl::FormatDuration(config->connection_age_grace)},
      {"metrics_address", config->metrics_address},
      {"queue_bytes_max", absl::StrCat(config->queue_bytes_max)},
      {"waiters_max", absl::StrCat(config->waiters_max)},
      {"statement_timeout", absl::FormatDuration(config->statement_timeout)},
      {"reap_interval", absl::FormatDuration(config->reap_interval)},
      {"reap_batch", absl::StrCat(config->reap_batch)},
      {"drain_delay", absl::FormatDuration(config->drain_delay)},
      {"drain_grace", absl::FormatDuration(config->drain_grace)},
      {"reflection", config->reflection ? "true" : "false"},
      {"log_format", config->log_format == LogFormat::kJson ? "json" : "text"},
      {"log_level", absl::StrCat(static_cast<int>(config->log_level))},
  };
}

// Records and fields, by characters that no setting holds.
inline std::string Pack(const Loaded& loaded) {
  std::string packed;
  for (const auto& [name, value] : loaded) {
    absl::StrAppend(&packed, name, "\x1f", value, "\x1e");
  }
  return packed;
}
inline Loaded Unpack(absl::string_view packed) {
  Loaded loaded;
  for (const absl::string_view record :
       absl::StrSplit(packed, '\x1e', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(record, absl::MaxSplits('\x1f', 1));
    loaded.insert(parts);
  }
  return loaded;
}

// With these variables of dedupe's and no others. Not beside other threads.
inline Loaded LoadInChild(const std::vector<std::string>& arguments,
                          const Environment& environment = {}) {
  int ends[2];
  if (pipe(ends) != 0) return {{"error", "no pipe"}};
  const pid_t child = fork();
  if (child == 0) {
    for (const absl::string_view variable :
         absl::StrSplit(SettingsHelp(), absl::ByAnyChar(" \n"))) {
      if (absl::StartsWith(variable, "DEDUPE_")) {
        unsetenv(std::string(variable).c_str());
      }
    }
    for (const auto& [name, value] : environment) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    const std::string packed = Pack(Describe(LoadConfig(arguments)));
    const ssize_t written = write(ends[1], packed.data(), packed.size());
    _exit(written == static_cast<ssize_t>(packed.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string packed;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    packed.append(buffer, static_cast<size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return {{"error", "the child crashed"}};
  return Unpack(packed);
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_APP_LOAD_IN_CHILD_H_
