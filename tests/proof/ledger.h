// The database that the charges are counted in.
#ifndef DEDUPE_TESTS_PROOF_LEDGER_H_
#define DEDUPE_TESTS_PROOF_LEDGER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/proof/payments_process.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {

class Ledger {
 public:
  // A database of its own with the payments schema; behind Door::kShared with
  // dedupe's as well.
  Ledger(PostgresCluster& cluster, Door door);

  const std::string& url() const { return url_; }
  // Rows: one for each charge, for each request that reached the card network,
  // and for each time that it took money from a card.
  int64_t Charges() const;
  int64_t CardRequests() const;
  int64_t CardAuthorizations() const;
  // Rows with this id: 1 or 0.
  int64_t ChargesWithId(const std::string& charge_id) const;
  // In order.
  std::vector<std::string> ChargeIds() const;

 private:
  std::string url_;
};

// The member of the answer's JSON that names the charge; empty if there is
// none.
std::string ChargeIdOf(const std::string& body);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_PROOF_LEDGER_H_
