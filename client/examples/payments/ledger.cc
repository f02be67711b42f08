#include "client/examples/payments/ledger.h"

#include "schema.h"

namespace payments {
namespace {

// A transaction that a dead or stopped process has left open ends by itself,
// so that the next attempt need not wait for it; and a business transaction is
// bounded in each of its steps.
constexpr char kTimeouts[] =
    "SET idle_in_transaction_session_timeout = '2s';"
    "SET statement_timeout = '10s';"
    "SET lock_timeout = '8s'";

void InstallUnlessThere(pqxx::transaction_base& transaction,
                        const char* schema_name, const char* sql) {
  const pqxx::result there = transaction.exec_params(
      "SELECT to_regnamespace($1) IS NOT NULL", schema_name);
  if (!there[0][0].as<bool>()) transaction.exec(sql);
}

}  // namespace

std::unique_ptr<pqxx::connection> OpenLedger(const std::string& url) {
  auto connection = std::make_unique<pqxx::connection>(url);
  pqxx::nontransaction(*connection).exec(kTimeouts);
  return connection;
}

void InstallSchema(const std::string& url, Door door) {
  const std::unique_ptr<pqxx::connection> connection = OpenLedger(url);
  pqxx::work transaction(*connection);
  InstallUnlessThere(transaction, "payments", kPaymentsSchema);
  if (door == Door::kReceipts) {
    InstallUnlessThere(transaction, "dedupe_receipts", kReceiptsSchema);
  }
  transaction.commit();
}

}  // namespace payments
