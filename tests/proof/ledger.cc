#include "tests/proof/ledger.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace dedupe::testing {
namespace {

int64_t Count(const std::string& url, const std::string& rows) {
  return Sql(url, absl::StrCat("SELECT count(*) FROM payments.", rows))
      .at(0)
      .at(0)
      .as<int64_t>();
}

}  // namespace

Ledger::Ledger(PostgresCluster& cluster, Door door)
    : url_(cluster.Url(door == Door::kShared ? cluster.CreateMigratedDatabase()
                                             : cluster.CreateDatabase())) {
  PaymentsOptions options;
  options.ledger_url = url_;
  options.door = door;
  InstallPaymentsSchema(options);
}

int64_t Ledger::Charges() const { return Count(url_, "charge"); }

int64_t Ledger::CardRequests() const { return Count(url_, "card_request"); }

int64_t Ledger::CardAuthorizations() const {
  return Count(url_, "card_authorization");
}

int64_t Ledger::ChargesWithId(const std::string& charge_id) const {
  return Count(
      url_, absl::StrCat("charge WHERE charge_id::text = '", charge_id, "'"));
}

std::vector<std::string> Ledger::ChargeIds() const {
  std::vector<std::string> ids;
  const pqxx::result rows = Sql(
      url_, "SELECT charge_id::text FROM payments.charge ORDER BY charge_id");
  for (const pqxx::row& row : rows) ids.emplace_back(row[0].c_str());
  return ids;
}

std::string ChargeIdOf(const std::string& body) {
  const nlohmann::json answer = nlohmann::json::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("charge_id")) return "";
  const nlohmann::json& id = answer["charge_id"];
  return id.is_string() ? id.get<std::string>() : id.dump();
}

}  // namespace dedupe::testing
