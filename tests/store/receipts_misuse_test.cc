// Receipts in sessions and transactions that they were not made for: never a
// second charge, never Done for what is not committed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "dedupe/receipts.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"

namespace dedupe::testing {
namespace {

using client::AttemptInfo;
using client::CommitWithReceipt;
using client::Done;
using client::ReconcileByReceipt;
using client::Response;
using client::Unknown;
using client::WorkResult;

class ReceiptsMisuseTest : public ::testing::Test {
 protected:
  ReceiptsMisuseTest() {
    PostgresCluster& cluster = PostgresCluster::Shared();
    url_ = cluster.Url(cluster.CreateDatabase());
    std::ifstream file(SourceDirectory() + "/client/receipts/receipts.up.sql");
    Sql(url_, {std::istreambuf_iterator<char>(file), {}});
    Sql(url_, "CREATE TABLE charge (amount bigint NOT NULL)");
  }

  static AttemptInfo Attempt(int64_t fence, bool taken_over = false) {
    AttemptInfo attempt;
    attempt.client_id = "acme";
    attempt.key = "schl\u00fcssel";
    attempt.fence = fence;
    attempt.taken_over = taken_over;
    return attempt;
  }
  static Response Answer() { return {.code = 201, .body = "charged"}; }

  static WorkResult ChargeAndCommit(pqxx::connection& connection,
                                    const AttemptInfo& attempt,
                                    Response answer = Answer()) {
    pqxx::work transaction(connection);
    transaction.exec("INSERT INTO charge VALUES (42)");
    return CommitWithReceipt(transaction, attempt, std::move(answer));
  }
  std::string Charges() const {
    return SqlValue(url_, "SELECT count(*) FROM charge");
  }

  std::string url_;
};

// The same key is other bytes in a session of another encoding: the next
// attempt did not find the receipt, and charged again.
TEST_F(ReceiptsMisuseTest, SessionsEncodingDoesNotMatter) {
  pqxx::connection latin(url_ + " client_encoding=LATIN1");
  pqxx::connection utf8(url_ + " client_encoding=UTF8");
  Response answer = Answer();
  answer.headers = {{"name", "\u00fc"}};
  ASSERT_TRUE(
      std::holds_alternative<Done>(ChargeAndCommit(latin, Attempt(1), answer)));
  const auto found = ReconcileByReceipt(utf8, Attempt(2, true));
  ASSERT_TRUE(std::holds_alternative<Done>(found));
  EXPECT_EQ(std::get<Done>(found).response, answer);
  EXPECT_TRUE(std::holds_alternative<Done>(
      ReconcileByReceipt(latin, Attempt(3, true))));
  EXPECT_EQ(Charges(), "1");
}

// Its end is a savepoint's: it was taken for a commit, and the key completed
// for a charge that the transaction around it then rolled back.
TEST_F(ReceiptsMisuseTest, SubtransactionIsNoCommit) {
  pqxx::connection connection(url_);
  {
    pqxx::work outer(connection);
    pqxx::subtransaction inner(outer);
    inner.exec("INSERT INTO charge VALUES (42)");
    EXPECT_TRUE(std::holds_alternative<Unknown>(
        CommitWithReceipt(inner, Attempt(1), Answer())));
  }
  EXPECT_EQ(Charges(), "0");
}

// A second transaction of the same attempt, while the first may be committing:
// to say that nothing happened would free the key under it.
TEST_F(ReceiptsMisuseTest, SecondTransactionBesideTheFirstIsUnknown) {
  pqxx::connection first_connection(url_);
  pqxx::work first(first_connection);
  first.exec("INSERT INTO charge VALUES (42)");
  first.exec_params(
      "SELECT dedupe_receipts.record('acme', $1, 1, false, 201, NULL, 'b')",
      Attempt(1).key);
  pqxx::connection second(url_);
  const WorkResult result = ChargeAndCommit(second, Attempt(1));
  ASSERT_TRUE(std::holds_alternative<Unknown>(result));
  EXPECT_TRUE(absl::IsAborted(std::get<Unknown>(result).status));
  first.commit();
  EXPECT_TRUE(std::holds_alternative<Done>(
      ReconcileByReceipt(second, Attempt(2, true))));
  EXPECT_EQ(Charges(), "1");
}

// Whoever is waiting gets the whole answer; the receipt cannot hold it.
TEST_F(ReceiptsMisuseTest, TooLargeBodyIsLeftOutOfTheReceiptAlone) {
  Response large = Answer();
  large.body = std::string(client::kBodyBytesMax + 1, 'x');
  pqxx::connection connection(url_);
  const WorkResult result = ChargeAndCommit(connection, Attempt(1), large);
  ASSERT_TRUE(std::holds_alternative<Done>(result));
  EXPECT_EQ(std::get<Done>(result).response, large);
  const auto found = ReconcileByReceipt(connection, Attempt(2, true));
  ASSERT_TRUE(std::holds_alternative<Done>(found));
  EXPECT_TRUE(std::get<Done>(found).response.body_omitted);
}

}  // namespace
}  // namespace dedupe::testing
