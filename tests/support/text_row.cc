#include "tests/support/text_row.h"

#include <libpq-fe.h>

#include <new>
#include <pqxx/internal/encoding_group.hxx>
#include <pqxx/internal/gates/result-creation.hxx>

namespace dedupe::testing {
namespace {

// The gate opens to libpqxx's own classes alone; what an explicit instantiation
// names is not asked who it is.
template <auto kCreate>
struct Gate {
  friend pqxx::result MakeResult(PGresult* rows) {
    return kCreate(rows, "", pqxx::internal::encoding_group::UTF8);
  }
};
template struct Gate<&pqxx::internal::gate::result_creation::create>;
pqxx::result MakeResult(PGresult* rows);

// All that these functions of libpq fail for.
void HaveMemory(bool has) {
  if (!has) throw std::bad_alloc();
}

}  // namespace

pqxx::result ResultOf(const TextRow& row) {
  PGresult* rows = PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK);
  HaveMemory(rows != nullptr);
  // It owns them from here on.
  pqxx::result result = MakeResult(rows);
  std::string name = "column";
  std::vector<PGresAttDesc> columns(row.size());
  for (PGresAttDesc& column : columns) column.name = name.data();
  if (!columns.empty()) {
    HaveMemory(PQsetResultAttrs(rows, static_cast<int>(columns.size()),
                                columns.data()) != 0);
  }
  int number = 0;
  for (const std::optional<std::string>& text : row) {
    std::string value = text.value_or("");
    // A length of -1 is libpq's way of saying NULL.
    const int length = text.has_value() ? static_cast<int>(value.size()) : -1;
    HaveMemory(PQsetvalue(rows, 0, number++, value.data(), length) != 0);
  }
  return result;
}

}  // namespace dedupe::testing
