// What the operator decides: flags, and DEDUPE_* in the environment, become one
// checked Config. Each setting is known by its flag (--batch-max) and by its
// variable (DEDUPE_BATCH_MAX); the flag wins.
#ifndef DEDUPE_SERVER_APP_CONFIG_H_
#define DEDUPE_SERVER_APP_CONFIG_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/telemetry/log.h"

namespace dedupe {

// The defaults and bounds stand at the flags in config.cc.
struct Config {
  std::string listen_address;
  std::string database_url;
  int connections = 0;
  size_t batch_max = 0;
  size_t queue_max = 0;
  size_t queue_bytes_max = 0;
  size_t waiters_max = 0;
  absl::Duration statement_timeout;
  absl::Duration reap_interval;
  int reap_batch = 0;
  absl::Duration drain_delay;
  absl::Duration drain_grace;
  bool reflection = true;
  LogFormat log_format = LogFormat::kJson;
  Severity log_level = Severity::kInfo;
};

// Of the words after the command, and the environment. INVALID_ARGUMENT with a
// message that names the setting and says what to write. Reads the file of
// --database-url-file. Once per process.
absl::StatusOr<Config> LoadConfig(const std::vector<std::string>& arguments);

// Every setting with its variable, meaning and default.
std::string SettingsHelp();

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_CONFIG_H_
