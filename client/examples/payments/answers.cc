#include "client/examples/payments/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "dedupe/http.h"

namespace payments {
namespace {

using dedupe::client::Problem;
using dedupe::client::Response;
using nlohmann::json;

constexpr uint64_t kAmountMax = 1'000'000'000'000;
constexpr size_t kOrderRefBytesMax = 64;

bool IsCurrency(absl::string_view text) {
  return text.size() == 3 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isupper);
}

bool IsCard(absl::string_view text) {
  return text.size() >= 12 && text.size() <= 19 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

bool IsOrderRef(absl::string_view text) {
  return !text.empty() && text.size() <= kOrderRefBytesMax &&
         std::none_of(text.begin(), text.end(), absl::ascii_iscntrl);
}

// Empty, which is none of them, if there is no such string.
std::string StringAt(const json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string()
             ? member->get<std::string>()
             : std::string();
}

Response ChargeAnswer(int status, const Charge& charge) {
  json body = {{"charge_id", charge.charge_id},
               {"amount", charge.amount},
               {"currency", charge.currency},
               {"order_ref", nullptr}};
  if (charge.order_ref.has_value()) body["order_ref"] = *charge.order_ref;
  return {.code = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = body.dump()};
}

}  // namespace

absl::StatusOr<ChargeOrder> ParseChargeOrder(const std::string& text) {
  const json body = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) {
    return absl::InvalidArgumentError("The body is not a JSON object.");
  }
  const auto amount = body.find("amount");
  if (amount == body.end() || !amount->is_number_unsigned() ||
      amount->get<uint64_t>() == 0 || amount->get<uint64_t>() > kAmountMax) {
    return absl::InvalidArgumentError(
        "amount is a whole number of cents, greater than zero.");
  }
  ChargeOrder order;
  order.amount = amount->get<int64_t>();
  order.currency = StringAt(body, "currency");
  order.card = StringAt(body, "card");
  if (!IsCurrency(order.currency)) {
    return absl::InvalidArgumentError("currency is like \"EUR\".");
  }
  if (!IsCard(order.card)) {
    return absl::InvalidArgumentError("card is 12 to 19 digits.");
  }
  if (body.contains("order_ref") && !body["order_ref"].is_null()) {
    order.order_ref = StringAt(body, "order_ref");
    if (!IsOrderRef(*order.order_ref)) {
      return absl::InvalidArgumentError("order_ref is 1 to 64 bytes of text.");
    }
  }
  return order;
}

std::string LastFour(const std::string& card) {
  return card.substr(card.size() - 4);
}

Response AnswerCreated(const Charge& charge) {
  return ChargeAnswer(201, charge);
}

Response AnswerOrderCharged(const Charge& charge, const ChargeOrder& order) {
  if (charge.amount == order.amount && charge.currency == order.currency) {
    return ChargeAnswer(200, charge);
  }
  return Problem(422, "about:blank", "The order is charged already",
                 "It was for another amount or currency.");
}

Response AnswerInvalid(const std::string& why) {
  return Problem(422, "about:blank", "The charge is not valid", why);
}

Response AnswerCardRefused() {
  return Problem(402, "about:blank", "The card was refused",
                 "Try another card, with another key.");
}

Response AnswerServerFailed() {
  return Problem(500, "about:blank", "The server failed",
                 "Nothing was charged.");
}

Response AnswerUnauthorized() {
  Response answer = Problem(401, "about:blank", "No such secret",
                            "Send Authorization: Bearer SECRET.");
  answer.headers.push_back({"WWW-Authenticate", "Bearer"});
  return answer;
}

}  // namespace payments
