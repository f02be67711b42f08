// Every setting by its name: a flag (--batch-max) and a variable of the
// environment (DEDUPE_BATCH_MAX); the flag wins. What they mean, and between
// which bounds, stands at each in settings.cc; config.h has them checked.
#ifndef DEDUPE_SERVER_APP_SETTINGS_H_
#define DEDUPE_SERVER_APP_SETTINGS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

ABSL_DECLARE_FLAG(std::string, listen_address);
ABSL_DECLARE_FLAG(std::string, tls_certificate_file);
ABSL_DECLARE_FLAG(std::string, tls_key_file);
ABSL_DECLARE_FLAG(std::string, tls_client_ca_file);
ABSL_DECLARE_FLAG(std::string, tls_client_crl_file);
ABSL_DECLARE_FLAG(std::string, tls_client_certificates);
ABSL_DECLARE_FLAG(absl::Duration, tls_reload_interval);
ABSL_DECLARE_FLAG(bool, plaintext_from_network);
ABSL_DECLARE_FLAG(std::string, authentication);
ABSL_DECLARE_FLAG(int, connections_max);
ABSL_DECLARE_FLAG(int, calls_in_flight_max);
ABSL_DECLARE_FLAG(absl::Duration, connection_age_max);
ABSL_DECLARE_FLAG(absl::Duration, connection_age_grace);
ABSL_DECLARE_FLAG(std::string, metrics_address);
ABSL_DECLARE_FLAG(std::string, database_url);
ABSL_DECLARE_FLAG(std::string, database_url_file);
ABSL_DECLARE_FLAG(int, connections);
ABSL_DECLARE_FLAG(int, batch_max);
ABSL_DECLARE_FLAG(int, queue_max);
ABSL_DECLARE_FLAG(int, queue_mebibytes_max);
ABSL_DECLARE_FLAG(int, waiters_max);
ABSL_DECLARE_FLAG(absl::Duration, statement_timeout);
ABSL_DECLARE_FLAG(absl::Duration, reap_interval);
ABSL_DECLARE_FLAG(int, reap_batch);
ABSL_DECLARE_FLAG(absl::Duration, drain_delay);
ABSL_DECLARE_FLAG(absl::Duration, drain_grace);
ABSL_DECLARE_FLAG(bool, reflection);
ABSL_DECLARE_FLAG(std::string, log_format);
ABSL_DECLARE_FLAG(std::string, log_level);

namespace dedupe {

inline constexpr size_t kMebibyte = 1024 * 1024;

// Reads the environment and then these words into the flags. INVALID_ARGUMENT
// with a message that names the setting and what is wrong with its text. Once
// per process.
absl::Status ReadSettings(const std::vector<std::string>& arguments);

// For messages, which do not know which of them the operator used.
std::string BothNames(const absl::CommandLineFlag& flag);

// Every setting with its variable, meaning and default.
std::string SettingsHelp();

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_SETTINGS_H_
