// The card network: somebody else's service, which cannot take part in any
// transaction of ours.
#ifndef PAYMENTS_CARD_NETWORK_H_
#define PAYMENTS_CARD_NETWORK_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/examples/payments/answers.h"

namespace payments {

// Thread-safe.
class CardNetwork {
 public:
  // It keeps its books in the ledger's database, over connections and in
  // transactions of its own.
  explicit CardNetwork(std::string url) : url_(std::move(url)) {}

  // Whether the card is good for it. The same downstream key is answered the
  // same and authorised once, however often it comes. kUnavailable: perhaps.
  absl::StatusOr<bool> Authorize(const std::string& downstream_key,
                                 const ChargeOrder& order);

 private:
  const std::string url_;
};

}  // namespace payments

#endif  // PAYMENTS_CARD_NETWORK_H_
