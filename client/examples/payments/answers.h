// What a client asks for, and the answers that it can get.
#ifndef PAYMENTS_ANSWERS_H_
#define PAYMENTS_ANSWERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "dedupe/response.h"

namespace payments {

// The body of POST /v1/charges.
struct ChargeOrder {
  // Of the smallest unit, such as cents.
  int64_t amount = 0;
  std::string currency;
  std::string card;
  // What is charged for; may be absent.
  std::optional<std::string> order_ref;
};

// A row of the ledger.
struct Charge {
  std::string charge_id;
  int64_t amount = 0;
  std::string currency;
  std::optional<std::string> order_ref;
};

// kInvalidArgument: not such a body; the text is for the client.
absl::StatusOr<ChargeOrder> ParseChargeOrder(const std::string& body);
std::string LastFour(const std::string& card);

// The charge that this request has made.
dedupe::client::Response AnswerCreated(const Charge& charge);
// The order was charged before, under another key: 200 if for the same, 422 if
// for another amount or currency.
dedupe::client::Response AnswerOrderCharged(const Charge& charge,
                                            const ChargeOrder& order);
dedupe::client::Response AnswerInvalid(const std::string& why);
dedupe::client::Response AnswerCardRefused();
dedupe::client::Response AnswerServerFailed();
dedupe::client::Response AnswerUnauthorized();

}  // namespace payments

#endif  // PAYMENTS_ANSWERS_H_
