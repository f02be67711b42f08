// The work that must happen once: a card is authorised, a charge is booked.
#ifndef PAYMENTS_CHARGING_H_
#define PAYMENTS_CHARGING_H_

#include <functional>
#include <memory>
#include <pqxx/pqxx>
#include <stop_token>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/examples/payments/answers.h"
#include "client/examples/payments/card_network.h"
#include "client/examples/payments/faults.h"
#include "dedupe/http.h"
#include "dedupe/outcome.h"

namespace payments {

// A request whose sender and key are known.
struct KeyedRequest {
  std::string client_id;
  std::string key;
  std::string operation;
  std::string fingerprint;
  std::string body;
};

struct ChargingOptions {
  std::string ledger_url;
  // Of the keys that the card network gets.
  std::string downstream_secret;
  dedupe::client::HttpProfile profile = dedupe::client::HttpProfile::kIetf;
  absl::Duration wait;
  absl::Duration lease;
  absl::Duration ttl;
  // The process is told to end.
  std::stop_token stop;
};

// One of the two ways in which work and bookkeeping go together. Thread-safe.
class ChargingDoor {
 public:
  virtual ~ChargingDoor() = default;
  virtual absl::StatusOr<dedupe::client::RunOnceOutcome> Charge(
      const KeyedRequest& request) = 0;
};

// How dedupe is reached and trusted, and shown who is calling.
struct DedupeServer {
  std::string target;
  // PEM; empty: plaintext.
  std::string ca_file;
  // Empty: no token.
  std::string token_file;
};

// dedupe over gRPC, the business transaction with a receipt: receipts_door.cc.
absl::StatusOr<std::unique_ptr<ChargingDoor>> MakeReceiptsDoor(
    const DedupeServer& dedupe, const ChargingOptions& options, Faults& faults);
// dedupe's SQL functions in the ledger's own database: shared_door.cc.
std::unique_ptr<ChargingDoor> MakeSharedDoor(const ChargingOptions& options,
                                             Faults& faults);

// The steps that both have in common.
class Charging {
 public:
  Charging(const ChargingOptions& options, Faults& faults)
      : options_(options), faults_(faults), card_network_(options.ledger_url) {}

  // All that comes before the business transaction. The order: the card is good
  // for it, now commit. Anything else is what the work comes to. may_act is
  // asked before the first step that has an effect: whether the key is still
  // held. Throws what libpqxx throws.
  std::variant<ChargeOrder, dedupe::client::WorkResult> Prepare(
      const KeyedRequest& request, pqxx::connection& ledger,
      const std::function<bool()>& may_act);

 private:
  const ChargingOptions options_;
  Faults& faults_;
  CardNetwork card_network_;
};

// In the business transaction: books the charge and returns the answer, which
// is another if the order was charged meanwhile. Throws what libpqxx throws.
dedupe::client::Response BookCharge(pqxx::transaction_base& transaction,
                                    const KeyedRequest& request,
                                    const ChargeOrder& order);

}  // namespace payments

#endif  // PAYMENTS_CHARGING_H_
