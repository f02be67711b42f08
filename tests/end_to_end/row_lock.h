// Keeps a record busy, as a transaction beside the server would.
#ifndef DEDUPE_TESTS_END_TO_END_ROW_LOCK_H_
#define DEDUPE_TESTS_END_TO_END_ROW_LOCK_H_

#include <pqxx/pqxx>
#include <string>

#include "absl/strings/str_cat.h"

namespace dedupe::testing {

// Holds the record's lock until it is destroyed.
class RowLock {
 public:
  RowLock(const std::string& url, const std::string& key)
      : connection_(url), transaction_(connection_) {
    transaction_.exec(absl::StrCat("SELECT FROM dedupe.record WHERE key = '",
                                   key, "' FOR UPDATE"));
  }

 private:
  pqxx::connection connection_;
  pqxx::work transaction_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_ROW_LOCK_H_
