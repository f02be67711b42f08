#include "tests/support/test_clock.h"

namespace dedupe::testing {
namespace {

// Looked up by a key, because the functions of the schema switch off sequential
// scans and PostgreSQL would compile a plan that has to use one after all.
constexpr char kInstall[] = R"sql(
SET ROLE dedupe_owner;
CREATE TABLE dedupe.test_clock (
  id integer PRIMARY KEY,
  us bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO dedupe.test_clock VALUES (1, 0);
CREATE OR REPLACE FUNCTION dedupe.now_us() RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  answer bigint;
BEGIN
  SELECT c.us INTO STRICT answer FROM dedupe.test_clock AS c WHERE c.id = 1;
  RETURN answer;
END
$$;
RESET ROLE;
)sql";

}  // namespace

TestClock::TestClock(const std::string& superuser_url, absl::Time start)
    : connection_(superuser_url) {
  pqxx::nontransaction session(connection_);
  session.exec(kInstall);
  session.commit();
  Set(start);
}

void TestClock::Set(absl::Time now) {
  now_ = now;
  pqxx::nontransaction session(connection_);
  session.exec_params("UPDATE dedupe.test_clock SET us = $1 WHERE id = 1",
                      absl::ToUnixMicros(now));
}

}  // namespace dedupe::testing
