// Sessions with the ledger's database.
#ifndef PAYMENTS_LEDGER_H_
#define PAYMENTS_LEDGER_H_

#include <memory>
#include <pqxx/pqxx>
#include <string>

namespace payments {

enum class Door {
  // dedupe over gRPC; a receipt in the ledger's own database.
  kReceipts,
  // dedupe's tables share the ledger's database.
  kShared,
};

// Throws what libpqxx throws. One for each request: a busier service would keep
// them in a pool.
std::unique_ptr<pqxx::connection> OpenLedger(const std::string& url);

// Creates what is not there yet. Throws likewise.
void InstallSchema(const std::string& url, Door door);

}  // namespace payments

#endif  // PAYMENTS_LEDGER_H_
