#include "client/examples/payments/card_network.h"

#include <exception>
#include <memory>
#include <pqxx/pqxx>

#include "absl/strings/match.h"
#include "client/examples/payments/ledger.h"

namespace payments {
namespace {

constexpr char kCountRequest[] =
    "INSERT INTO payments.card_request (downstream_key) VALUES ($1)";
constexpr char kAuthorizeOnce[] =
    "INSERT INTO payments.card_authorization "
    "(downstream_key, approved, amount, currency, card_last4) "
    "VALUES ($1, $2, $3, $4, $5) ON CONFLICT (downstream_key) DO NOTHING";
constexpr char kReadAuthorization[] =
    "SELECT approved FROM payments.card_authorization "
    "WHERE downstream_key = $1";

}  // namespace

absl::StatusOr<bool> CardNetwork::Authorize(const std::string& downstream_key,
                                            const ChargeOrder& order) {
  try {
    const std::unique_ptr<pqxx::connection> connection = OpenLedger(url_);
    pqxx::work transaction(*connection);
    transaction.exec_params(kCountRequest, downstream_key);
    transaction.exec_params(kAuthorizeOnce, downstream_key,
                            !absl::EndsWith(order.card, "0002"), order.amount,
                            order.currency, LastFour(order.card));
    const bool approved =
        transaction.exec_params(kReadAuthorization, downstream_key)[0][0]
            .as<bool>();
    transaction.commit();
    return approved;
  } catch (const std::exception&) {
    return absl::UnavailableError("the card network did not answer");
  }
}

}  // namespace payments
