#include "client/examples/payments/charging.h"

#include <optional>

#include "dedupe/key.h"

namespace payments {
namespace {

using dedupe::client::NothingHappened;
using dedupe::client::Response;
using dedupe::client::Settle;
using dedupe::client::Unknown;
using dedupe::client::WorkResult;

constexpr char kInsertCharge[] =
    "INSERT INTO payments.charge (client_id, idempotency_key, order_ref, "
    "amount, currency, card_last4) "
    "VALUES ($1, $2, nullif($3, ''), $4, $5, $6) "
    "ON CONFLICT (client_id, order_ref) DO NOTHING "
    "RETURNING charge_id, amount, currency, order_ref";
constexpr char kFindOrder[] =
    "SELECT charge_id, amount, currency, order_ref FROM payments.charge "
    "WHERE client_id = $1 AND order_ref = $2";

Charge ReadCharge(const pqxx::row& row) {
  Charge charge;
  charge.charge_id = row["charge_id"].as<std::string>();
  charge.amount = row["amount"].as<int64_t>();
  charge.currency = row["currency"].as<std::string>();
  if (!row["order_ref"].is_null()) {
    charge.order_ref = row["order_ref"].as<std::string>();
  }
  return charge;
}

std::optional<Charge> FindOrder(pqxx::transaction_base& transaction,
                                const KeyedRequest& request,
                                const ChargeOrder& order) {
  const pqxx::result rows = transaction.exec_params(
      kFindOrder, request.client_id, order.order_ref.value_or(""));
  if (rows.empty()) return std::nullopt;
  return ReadCharge(rows[0]);
}

}  // namespace

std::variant<ChargeOrder, WorkResult> Charging::Prepare(
    const KeyedRequest& request, pqxx::connection& ledger,
    const std::function<bool()>& may_act) {
  if (faults_.Reach(FaultPoint::kBeforeWork)) {
    return Settle(AnswerServerFailed(), options_.profile);
  }
  const absl::StatusOr<ChargeOrder> order = ParseChargeOrder(request.body);
  if (!order.ok()) {
    return Settle(AnswerInvalid(std::string(order.status().message())),
                  options_.profile);
  }
  if (order->order_ref.has_value()) {
    pqxx::nontransaction look(ledger);
    const std::optional<Charge> charged = FindOrder(look, request, *order);
    if (charged.has_value()) {
      return Settle(AnswerOrderCharged(*charged, *order), options_.profile);
    }
  }

  // The last moment at which nothing has happened yet.
  if (!may_act()) return NothingHappened{};
  const absl::StatusOr<std::string> downstream_key =
      dedupe::client::DownstreamKey(options_.downstream_secret,
                                    request.client_id, request.key,
                                    "authorize");
  if (!downstream_key.ok()) return NothingHappened{};
  const absl::StatusOr<bool> approved =
      card_network_.Authorize(*downstream_key, *order);
  if (!approved.ok()) return Unknown{approved.status()};
  if (!*approved) return Settle(AnswerCardRefused(), options_.profile);
  faults_.Reach(FaultPoint::kBeforeCommit);
  return *order;
}

Response BookCharge(pqxx::transaction_base& transaction,
                    const KeyedRequest& request, const ChargeOrder& order) {
  const pqxx::result rows =
      transaction.exec_params(kInsertCharge, request.client_id, request.key,
                              order.order_ref.value_or(""), order.amount,
                              order.currency, LastFour(order.card));
  if (!rows.empty()) return AnswerCreated(ReadCharge(rows[0]));
  // Charged under another key, since Prepare looked. Its row is visible: the
  // INSERT has waited for it.
  return AnswerOrderCharged(*FindOrder(transaction, request, order), order);
}

}  // namespace payments
