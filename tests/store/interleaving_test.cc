// Two sessions, stopped and let go where it hurts: between what one has read
// and what it does next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/store/session.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

// Begin reads the clock at the start of each of its rounds; this one then waits
// there, in the session called "gated", for as long as the gate is closed.
constexpr char kGate[] = R"sql(
CREATE TABLE public.gate (closed boolean NOT NULL);
INSERT INTO public.gate VALUES (false);
GRANT SELECT ON public.gate TO dedupe_owner;
CREATE OR REPLACE FUNCTION dedupe.now_us() RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  IF current_setting('application_name') = 'gated'
    AND (SELECT g.closed FROM public.gate AS g)
  THEN
    PERFORM pg_advisory_xact_lock_shared(1);
  END IF;
  RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END
$$;
ALTER FUNCTION dedupe.begin_batch(text[], text[], text[], bytea[], text[],
  bigint[], bigint[], dedupe.lease_policy[]) SET lock_timeout = '20s';
)sql";

class InterleavingTest : public ::testing::Test {
 protected:
  InterleavingTest()
      : url_(PostgresCluster::Shared().Url(
            PostgresCluster::Shared().CreateMigratedDatabase())),
        admin_(url_),
        rival_(url_) {
    EXPECT_EQ(admin_.Run(kGate).sqlstate, "");
  }

  void CloseGate() {
    admin_.Run("SELECT pg_advisory_lock(1)");
    admin_.Run("UPDATE public.gate SET closed = true");
  }
  void OpenGate() {
    admin_.Run("UPDATE public.gate SET closed = false");
    admin_.Run("SELECT pg_advisory_unlock(1)");
  }

  // Until the gated session waits for a lock of this type.
  void WaitForGated(const std::string& wait_event) {
    Session watcher(url_);
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (watcher.Value(absl::StrCat(
               "SELECT count(*) FROM pg_stat_activity WHERE application_name ="
               " 'gated' AND wait_event = '",
               wait_event, "'")) == "0") {
      ASSERT_LT(absl::Now(), until);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  // Begins of these keys, of a batch: key and outcome of each.
  std::future<std::string> BeginGated(const std::string& keys,
                                      const std::string& attempt) {
    return std::async(std::launch::async, [=, this] {
      Session session(url_ + " application_name=gated");
      return session.Value(absl::StrCat(
          "WITH k AS (SELECT ARRAY[", keys,
          "]::text[] AS keys), n AS (SELECT keys,"
          " ARRAY[cardinality(keys)] AS n FROM k)"
          "SELECT string_agg(b.key || ' ' || b.outcome, ', ' ORDER BY b.key)"
          " FROM n, dedupe.begin_batch(array_fill('acme'::text, n), keys,"
          " array_fill(''::text, n), array_fill('\\x01'::bytea, n),"
          " array_fill('",
          attempt,
          "'::text, n), array_fill(NULL::bigint, n),"
          " array_fill(NULL::bigint, n),"
          " array_fill(NULL::dedupe.lease_policy, n)) AS b"));
    });
  }

  // The rival's insert of key k1 is uncommitted when the gated session comes,
  // which has lost the race then and waits at the gate before it looks again.
  std::future<std::string> LoseInsert(const std::string& keys,
                                      const std::string& attempt) {
    rival_.Run("BEGIN; SELECT " + Begin("a1"));
    std::future<std::string> gated = BeginGated(keys, attempt);
    WaitForGated("transactionid");
    CloseGate();
    rival_.Run("COMMIT");
    WaitForGated("advisory");
    return gated;
  }

  static std::string Begin(const std::string& attempt,
                           const std::string& fingerprint = "01") {
    return absl::StrCat("dedupe.begin('acme', 'k1', '', '\\x", fingerprint,
                        "', '", attempt, "')");
  }
  std::string Complete(const std::string& attempt) {
    return rival_.Value(absl::StrCat(
        "SELECT outcome FROM dedupe.record AS r, dedupe.complete('acme', 'k1',"
        " '",
        attempt, "', r.fence, 200, 'done') WHERE r.key = 'k1'"));
  }

  const std::string url_;
  Session admin_;
  Session rival_;
};

TEST_F(InterleavingTest, LoserOfAnInsertSeesTheHolder) {
  auto gated = LoseInsert("'k1'", "a2");
  OpenGate();
  EXPECT_EQ(gated.get(), "k1 in_progress");
}

TEST_F(InterleavingTest, LoserOfAnInsertIsHandedWhatWasCompletedMeanwhile) {
  auto gated = LoseInsert("'k1'", "a2");
  EXPECT_EQ(Complete("a1"), "completed");
  OpenGate();
  EXPECT_EQ(gated.get(), "k1 replay");
}

TEST_F(InterleavingTest, LoserOfAnInsertStartsIfTheRowIsGone) {
  auto gated = LoseInsert("'k1'", "a2");
  rival_.Run("DELETE FROM dedupe.record");
  OpenGate();
  EXPECT_EQ(gated.get(), "k1 started");
}

TEST_F(InterleavingTest, LoserOfAnInsertIsJudgedByTheRowThatIsThere) {
  auto gated = LoseInsert("'k1'", "a2");
  rival_.Run("DELETE FROM dedupe.record; SELECT " + Begin("a3"));
  EXPECT_EQ(Complete("a3"), "completed");
  OpenGate();
  EXPECT_EQ(gated.get(), "k1 replay");
}

TEST_F(InterleavingTest, LoserOfAnInsertIsJudgedByTheRequestThatIsThere) {
  auto gated = LoseInsert("'k1'", "a2");
  rival_.Run("DELETE FROM dedupe.record; SELECT " + Begin("a3", "02"));
  OpenGate();
  EXPECT_EQ(gated.get(), "k1 mismatch");
}

// The bug: whoever had lost one key of a batch and won another went on to lock
// the lost one, which may stand before the other in the order that keeps
// batches from waiting for each other.
TEST_F(InterleavingTest, BatchThatHoldsRowsDoesNotGoBackForOthers) {
  rival_.Run("BEGIN; SELECT " + Begin("a1"));
  // The same attempt's, which would be resumed: an UPDATE.
  auto gated = BeginGated("'k1', 'k3'", "a1");
  WaitForGated("transactionid");
  rival_.Run("COMMIT");
  // The batch has lost k1 and inserted k3, which it lets go of.
  EXPECT_EQ(gated.get(), "k1 retry, k3 started");
}

// An UPDATE that is refused, because another has changed its row meanwhile, has
// locked the row all the same.
TEST_F(InterleavingTest, BatchWhoseUpdateWasRefusedDoesNotGoBackEither) {
  admin_.Run(
      "SELECT dedupe.begin('acme', 'k3', '', '\\x01', 'a1',"
      " lease => interval '1 s')");
  rival_.Run("BEGIN; SELECT " + Begin("a1"));
  Session second_rival(url_);
  second_rival.Run(
      "BEGIN; SELECT dedupe.begin('acme', 'k3', '', '\\x01', 'a1')");
  auto gated = BeginGated("'k1', 'k3'", "a1");
  WaitForGated("transactionid");
  rival_.Run("COMMIT");
  // It has lost k1 then, and waits for k3.
  admin_.Run("SELECT FROM dedupe.record WHERE key = 'k1' FOR UPDATE");
  WaitForGated("transactionid");
  second_rival.Run("COMMIT");
  EXPECT_EQ(gated.get(), "k1 retry, k3 retry");
}

}  // namespace
}  // namespace dedupe::testing
