// Puts a clock that stands still into a migrated database: time passes only
// when a test says so. Nothing but dedupe.now_us() is replaced, so everything
// else runs as it does in production.
#ifndef DEDUPE_TESTS_SUPPORT_TEST_CLOCK_H_
#define DEDUPE_TESTS_SUPPORT_TEST_CLOCK_H_

#include <pqxx/pqxx>
#include <string>

#include "absl/time/time.h"

namespace dedupe::testing {

// Not thread-safe. Times are whole microseconds, as the database's are.
class TestClock {
 public:
  // superuser_url: of the database. It keeps a connection to it.
  TestClock(const std::string& superuser_url, absl::Time start);

  absl::Time Now() const { return now_; }
  // Returns when every session sees it.
  void Set(absl::Time now);
  void Advance(absl::Duration duration) { Set(now_ + duration); }

 private:
  pqxx::connection connection_;
  absl::Time now_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_TEST_CLOCK_H_
