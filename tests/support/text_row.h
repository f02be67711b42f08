// Rows as a statement would return them, made of texts. The constructor of
// pqxx::result that takes libpq's is libpqxx's own business: this file and its
// .cc are the one place that knows of it, and of version 6.
#ifndef DEDUPE_TESTS_SUPPORT_TEXT_ROW_H_
#define DEDUPE_TESTS_SUPPORT_TEXT_ROW_H_

#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <vector>

namespace dedupe::testing {

// NULL where unset.
using TextRow = std::vector<std::optional<std::string>>;

// One row with these columns; with none, a result without rows.
pqxx::result ResultOf(const TextRow& row);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_TEXT_ROW_H_
