#include "client/examples/payments/settings.h"

#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:0",
          "HOST:PORT to serve at; port 0 is any that is free");
ABSL_FLAG(std::string, ledger_url, "", "libpq connection string of the ledger");
ABSL_FLAG(std::string, dedupe_target, "127.0.0.1:7733",
          "where dedupe serves; unused with --mode=shared");
ABSL_FLAG(std::string, dedupe_ca_file, "",
          "PEM file of the CAs that dedupe's certificate is checked by; empty "
          "is plaintext");
ABSL_FLAG(std::string, dedupe_token_file, "",
          "file of the token that dedupe knows this service by; empty is none");
ABSL_FLAG(std::string, mode, "receipts",
          "receipts: dedupe over gRPC; shared: the ledger and dedupe share a "
          "database");
ABSL_FLAG(std::string, profile, "ietf", "ietf, conflict409 or stripe");
ABSL_FLAG(absl::Duration, wait, absl::Seconds(2),
          "how long a request waits for another with its key; 0 is not at all");
ABSL_FLAG(absl::Duration, lease, absl::Seconds(30),
          "how long a crashed request blocks its key");
ABSL_FLAG(absl::Duration, ttl, absl::Hours(24), "how long answers are kept");
ABSL_FLAG(std::vector<std::string>, api_key, {"test-secret:shop"},
          "SECRET:CLIENT_ID, separated by commas");
ABSL_FLAG(std::string, downstream_secret, "only-for-trying-this-out",
          "of the keys that the card network gets, at least 16 bytes; the same "
          "in every process");
ABSL_FLAG(
    std::string, fault, "",
    "POINT:ACTION; before-work, before-commit or after-commit; kill, stop "
    "or fail");
ABSL_FLAG(int, fault_times, 1, "to how many charges the fault happens");
ABSL_FLAG(bool, install_schema, false,
          "create the tables in the ledger's database, then exit");

namespace payments {

using dedupe::client::HttpProfile;

absl::StatusOr<Settings> ReadSettings(std::stop_token stop) {
  static const std::map<std::string, HttpProfile> kProfiles = {
      {"ietf", HttpProfile::kIetf},
      {"conflict409", HttpProfile::kConflict409},
      {"stripe", HttpProfile::kStripe}};
  Settings settings;
  const std::string mode = absl::GetFlag(FLAGS_mode);
  if (mode != "receipts" && mode != "shared") {
    return absl::InvalidArgumentError("--mode is receipts or shared");
  }
  settings.door = mode == "shared" ? Door::kShared : Door::kReceipts;
  const std::pair<std::string, std::string> address =
      absl::StrSplit(absl::GetFlag(FLAGS_listen), absl::MaxSplits(':', 1));
  settings.host = address.first;
  settings.dedupe = {.target = absl::GetFlag(FLAGS_dedupe_target),
                     .ca_file = absl::GetFlag(FLAGS_dedupe_ca_file),
                     .token_file = absl::GetFlag(FLAGS_dedupe_token_file)};
  settings.install_schema = absl::GetFlag(FLAGS_install_schema);
  if (!absl::SimpleAtoi(address.second, &settings.port)) {
    return absl::InvalidArgumentError("--listen is HOST:PORT");
  }
  const auto profile = kProfiles.find(absl::GetFlag(FLAGS_profile));
  if (profile == kProfiles.end()) {
    return absl::InvalidArgumentError("--profile: there is no such profile");
  }
  for (const std::string& api_key : absl::GetFlag(FLAGS_api_key)) {
    settings.client_id_by_secret.insert(
        absl::StrSplit(api_key, absl::MaxSplits(':', 1)));
  }
  settings.charging = {
      .ledger_url = absl::GetFlag(FLAGS_ledger_url),
      .downstream_secret = absl::GetFlag(FLAGS_downstream_secret),
      .profile = profile->second,
      .wait = absl::GetFlag(FLAGS_wait),
      .lease = absl::GetFlag(FLAGS_lease),
      .ttl = absl::GetFlag(FLAGS_ttl),
      .stop = std::move(stop)};
  auto faults = Faults::Parse(absl::GetFlag(FLAGS_fault),
                              absl::GetFlag(FLAGS_fault_times));
  if (!faults.ok()) return faults.status();
  settings.faults = *std::move(faults);
  return settings;
}

}  // namespace payments
