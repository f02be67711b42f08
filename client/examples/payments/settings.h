// What the command line says.
#ifndef PAYMENTS_SETTINGS_H_
#define PAYMENTS_SETTINGS_H_

#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "client/examples/payments/charging.h"
#include "client/examples/payments/faults.h"
#include "client/examples/payments/ledger.h"

namespace payments {

struct Settings {
  Door door = Door::kReceipts;
  std::string host;
  // 0: any that is free.
  int port = 0;
  DedupeServer dedupe;
  // Create the tables and exit, rather than serve.
  bool install_schema = false;
  std::map<std::string, std::string> client_id_by_secret;
  ChargingOptions charging;
  std::unique_ptr<Faults> faults;
};

// Of the parsed flags. kInvalidArgument: what is wrong with them. stop: asked
// when the process is told to end.
absl::StatusOr<Settings> ReadSettings(std::stop_token stop);

}  // namespace payments

#endif  // PAYMENTS_SETTINGS_H_
