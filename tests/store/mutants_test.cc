// Are the tests worth anything? Faults are put into the functions of scratch
// databases, one each, and every one of them must be found; the database
// without a fault must pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <future>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "server/store/postgres_store.h"
#include "tests/store/differential.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {
namespace {

// Of a schema's function over arrays, so many texts to be replaced.
struct Mutant {
  const char* name;
  const char* function;
  std::vector<std::pair<std::string, std::string>> replacements;
};

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

constexpr char kBegin[] =
    "dedupe.begin_batch(text[], text[], text[], bytea[], text[], bigint[], "
    "bigint[],"
    " dedupe.lease_policy[])";
constexpr char kComplete[] =
    "dedupe.complete_batch(text[], text[], text[], bigint[], integer[], "
    "jsonb[],"
    " bytea[])";
constexpr char kExtend[] =
    "dedupe.extend_batch(text[], text[], text[], bigint[], bigint[], bytea[])";
constexpr char kRelease[] =
    "dedupe.release_batch(text[], text[], text[], bigint[], boolean[])";
constexpr char kLookup[] = "dedupe.lookup_batch(text[], text[], boolean)";
constexpr char kReap[] = "dedupe.reap(integer, timestamptz)";

// A text that is not there exactly once would leave the function sound, or
// faulty in more than one way.
void Apply(const Mutant& mutant, const std::string& url) {
  std::string definition =
      SqlValue(url, absl::StrCat("SELECT pg_get_functiondef('", mutant.function,
                                 "'::regprocedure)"));
  for (const auto& [sound, faulty] : mutant.replacements) {
    ASSERT_EQ(absl::StrReplaceAll({{sound, faulty}}, &definition), 1) << sound;
  }
  Sql(url, definition);
}

// How the model and a database with the fault first differ.
std::optional<std::string> FirstDifference(const Mutant* mutant) {
  constexpr int64_t kOperations = 20'000;
  PostgresCluster& cluster = PostgresCluster::Shared();
  const std::string database = cluster.CreateMigratedDatabase();
  if (mutant != nullptr) Apply(*mutant, cluster.Url(database));
  TestClock clock(cluster.Url(database), absl::FromUnixSeconds(1'700'000'000));
  PostgresStoreOptions options;
  options.database_url = cluster.Url(database, "dedupe_server");
  options.connections = 2;
  PostgresStore store(options);
  Differential differential(store, clock);
  auto difference = differential.Run({.seed = 1, .operations = kOperations});
  std::printf("%s after %lld operations\n",
              difference.has_value() ? "found" : "nothing found",
              static_cast<long long>(differential.operations()));
  return difference;
}

class MutantTest : public ::testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsFoundByTheDifferential) {
  const auto difference = FirstDifference(&GetParam());
  ASSERT_TRUE(difference.has_value());
  // A person has to be able to read it.
  EXPECT_THAT(*difference, ::testing::HasSubstr("shortest history"));
  std::printf("%s", difference->c_str());
}

TEST(SoundDatabaseTest, Passes) {
  const auto difference = FirstDifference(nullptr);
  EXPECT_FALSE(difference.has_value()) << *difference;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, MutantTest,
    ::testing::Values(
        Mutant{"CompleteWithoutFence",
               kComplete,
               {{"AND t.fence = fences[p]", ""}}},
        Mutant{"FingerprintAfterState",
               kBegin,
               {{"WHEN t.fingerprint <> fingerprints[p]",
                 "WHEN t.state = 'completed' THEN 'replay'"
                 " WHEN t.fingerprint <> fingerprints[p]"}}},
        Mutant{"OperationNotCompared",
               kBegin,
               {{"OR (t.operation <> operations[p] AND t.fingerprint IS NOT "
                 "NULL)",
                 ""}}},
        Mutant{"SameAttemptNotResumed",
               kBegin,
               {{"WHEN t.attempt_id = attempt_ids[p] THEN 'resume'", ""}}},
        Mutant{"FenceKeptOnTakeover",
               kBegin,
               {{"fence = CASE c.verdict WHEN 'resume' THEN t.fence",
                 "fence = CASE WHEN c.verdict IN ('resume', 'takeover')"
                 " THEN t.fence"}}},
        Mutant{"ExpiredStillReplayed",
               kBegin,
               {{"WHEN t.expires_at <= now_at THEN 'renew'",
                 "WHEN t.expires_at <= now_at AND t.state <> 'completed'"
                 " THEN 'renew'"}}},
        Mutant{
            "LeaseEndBelongsToTheLease",
            kBegin,
            {{"t.lease_expires_at > now_at", "t.lease_expires_at >= now_at"}}},
        Mutant{"HoldNotHeeded",
               kBegin,
               {{"WHEN t.on_lease_expiry = 'hold' THEN 'in_doubt'", ""}}},
        Mutant{"ResumeShortensTheLease",
               kBegin,
               {{"WHEN 'resume' THEN greatest(", "WHEN 'resume' THEN least("}}},
        Mutant{"TakenOverForgottenByRelease",
               kBegin,
               {{"ELSE t.taken_over END", "ELSE false END"}}},
        Mutant{"CheckpointOutlivesTheRecord",
               kBegin,
               {{"checkpoint = CASE c.verdict WHEN 'renew' THEN NULL",
                 "checkpoint = CASE WHEN false THEN NULL"}}},
        Mutant{"OlderTtlCounts",
               kBegin,
               {{"ttl_us = coalesce(ttls_us[c.position], ttl_default_us)",
                 "ttl_us = t.ttl_us"}}},
        Mutant{"CompletionKeptFromItsStart",
               kComplete,
               {{"expires_at = to_timestamp((now_us + t.ttl_us)::float8 / "
                 "1000000)",
                 "expires_at = t.started_at + t.ttl_us * interval '1 us'"}}},
        Mutant{"HeadersNotCompared",
               kComplete,
               {{"AND t.response_headers IS NOT DISTINCT FROM "
                 "nullif(headers[p], '[]')",
                 ""}}},
        Mutant{"EmptyBodyTakenForOmitted",
               kComplete,
               {{"response_body = bodies[p],",
                 "response_body = nullif(bodies[p], ''),"},
                {"body_omitted = bodies[p] IS NULL",
                 "body_omitted = nullif(bodies[p], '') IS NULL"}}},
        Mutant{"ExtendShortens",
               kExtend,
               {{"greatest(t.lease_expires_at, w.lease_end)", "w.lease_end"}}},
        Mutant{"ExtendOfAnotherAttempt",
               kExtend,
               {{"AND t.attempt_id = attempt_ids[w.position]", ""}}},
        Mutant{"ReleaseForgetsTheAttempt",
               kRelease,
               {{"ELSE (t.finished_attempts || t.attempt_id)[",
                 "ELSE (t.finished_attempts)["}}},
        Mutant{"ReleaseForgetsTheFingerprint",
               kRelease,
               {{"fingerprint = CASE WHEN forget_fingerprints[p] THEN NULL",
                 "fingerprint = CASE WHEN true THEN NULL"}}},
        Mutant{"RepeatedReleaseLivesLonger",
               kRelease,
               {{"CASE t.state WHEN 'released' THEN t.expires_at",
                 "CASE WHEN false THEN t.expires_at"}}},
        Mutant{"LookupShowsExpired",
               kLookup,
               {{"AND (t.expires_at <= now_at) IS NOT TRUE", ""}}},
        Mutant{"ReaperDeletesTheLiving",
               kReap,
               {{"WHERE ctid = ANY (due) AND expires_at <= now_at",
                 "WHERE ctid = ANY (due)"}}}),
    [](const auto& test) { return std::string(test.param.name); });

// The compare-and-set of the takeover guards against what only two sessions can
// do to each other: both have read the lapsed lease before either took it.
class TakeoverRaceTest : public ::testing::Test {
 protected:
  TakeoverRaceTest()
      : url_(PostgresCluster::Shared().Url(
            PostgresCluster::Shared().CreateMigratedDatabase())) {
    // Time for this test to see that the second session waits.
    Sql(url_,
        absl::StrCat("ALTER FUNCTION ", kBegin, " SET lock_timeout = '30s'"));
  }

  static std::string Call(const std::string& attempt_id) {
    return absl::StrCat(
        "SELECT outcome || coalesce(' ' || taken_over, '')"
        " FROM dedupe.begin_batch(ARRAY['acme'], ARRAY['k'], ARRAY[''],"
        " ARRAY['\\x01'::bytea], ARRAY['",
        attempt_id,
        "'], ARRAY[NULL::bigint], ARRAY[NULL::bigint],"
        " ARRAY[NULL::dedupe.lease_policy])");
  }

  // What the second is told whose takeover waited for the first one's commit.
  std::string SecondOfTwo() {
    SqlValue(url_, Call("a1"));
    Sql(url_,
        "UPDATE dedupe.record SET lease_expires_at = now() - interval '1 s'");
    pqxx::connection connection(url_);
    pqxx::work first(connection);
    EXPECT_STREQ(first.exec1(Call("a2"))[0].c_str(), "started true");
    auto second = std::async(std::launch::async,
                             [&] { return SqlValue(url_, Call("a3")); });
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (SqlValue(url_, "SELECT count(*) FROM pg_locks WHERE NOT granted") ==
               "0" &&
           absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    first.commit();
    return second.get();
  }

  const std::string url_;
};

TEST_F(TakeoverRaceTest, SecondIsToldOfTheFirst) {
  EXPECT_EQ(SecondOfTwo(), "in_progress");
}

TEST_F(TakeoverRaceTest, WithoutTheCompareAndSetBothAreStarted) {
  Apply({"TakeoverWithoutCompareAndSet",
         kBegin,
         {{"AND t.fence = c.fence", ""},
          {"AND t.state = c.state", ""},
          {"AND t.lease_expires_at IS NOT DISTINCT FROM c.lease", ""}}},
        url_);
  EXPECT_EQ(SecondOfTwo(), "started true");
}

}  // namespace
}  // namespace dedupe::testing
