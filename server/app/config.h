// What the operator decides: the settings become one checked Config.
#ifndef DEDUPE_SERVER_APP_CONFIG_H_
#define DEDUPE_SERVER_APP_CONFIG_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/telemetry/log.h"
#include "server/tls/certificate_files.h"
#include "server/tls/tls_credentials.h"

namespace dedupe {

enum class Authentication { kAuto, kRequired, kNone };

// The defaults and bounds stand at the flags in settings.cc.
struct Config {
  struct Tls {
    // Without a certificate there is no TLS.
    CertificateFiles files;
    ClientCertificates client_certificates = ClientCertificates::kRequire;
    absl::Duration reload_interval;
  };

  std::string listen_address;
  Tls tls;
  bool plaintext_from_network = false;
  Authentication authentication = Authentication::kAuto;
  // 0: as many as there are descriptors for.
  int connections_max = 0;
  int calls_in_flight_max = 0;
  absl::Duration connection_age_max;
  absl::Duration connection_age_grace;
  // Empty: metrics are not served.
  std::string metrics_address;
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

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_CONFIG_H_
