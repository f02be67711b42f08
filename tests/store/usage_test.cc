// What records amount to: counted in pages of any size, for any pattern, it is
// what a plain count says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/store/postgres_store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"
#include "tests/store/session.h"
#include "tests/support/builders.h"
#include "tests/support/memory_store.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/test_clock.h"

namespace dedupe::testing {
namespace {

// Where bytes and letters, or SQL's and our own patterns, could be taken for
// each other.
const char* const kClientIds[] = {"a",           "a*",
                                  "a%",          "a_",
                                  "ab",          "a/",
                                  "a/b",         "A",
                                  "b",           "*",
                                  "%",           "_",
                                  "\u00e9",      "\u00e9t\u00e9",
                                  "e",           "\uffff",
                                  "a\uffff",     "\U0010ffff",
                                  "a\U0010ffff", "a\U0010ffff\U0010ffff",
                                  "\ud7ff",      "\ue000",
                                  "z",           "1-1",
                                  "11"};
const char* const kPatterns[] = {
    "*",       "a",           "a*",           "a**",         "a%",
    "a%*",     "a_",          "a_*",          "a/*",         "ab",
    "A*",      "%*",          "_*",           "**",          "\u00e9*",
    "\uffff*", "\U0010ffff*", "a\U0010ffff*", "a\U0010ffff", "\ud7ff*",
    "nobody",  "nobody*",     "zz*",          "1*"};

struct Sum {
  int64_t rows = 0;
  int64_t live_keys = 0;
  int64_t stored_bytes = 0;

  friend bool operator==(const Sum&, const Sum&) = default;
};

void PrintTo(const Sum& sum, std::ostream* out) {
  *out << sum.rows << " rows, " << sum.live_keys << " live, "
       << sum.stored_bytes << " bytes";
}

// Page by page, until the end.
Sum Measure(Store& store, const std::string& pattern, int row_limit) {
  Sum sum;
  UsageCommand command{.pattern = pattern, .row_limit = row_limit};
  while (true) {
    const auto page = BlockingStore(store).MeasureUsage(command);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) return sum;
    EXPECT_LE(page->rows, row_limit);
    sum.rows += page->rows;
    sum.live_keys += page->live_keys;
    sum.stored_bytes += page->stored_bytes;
    if (page->rows < row_limit) return sum;
    command.after_client_id = page->last_client_id;
    command.after_key = page->last_key;
  }
}

class UsageTest : public ::testing::Test {
 protected:
  UsageTest()
      : database_(PostgresCluster::Shared().CreateMigratedDatabase()),
        url_(PostgresCluster::Shared().Url(database_)),
        session_(url_),
        clock_(url_, absl::FromUnixSeconds(1'700'000'000)),
        store_({.database_url =
                    PostgresCluster::Shared().Url(database_, "dedupe_server")}),
        memory_([this] { return clock_.Now(); }) {}

  // In both stores; some are completed, extended, released, or on hold.
  template <typename Random>
  void AddRandomRecord(const std::string& client_id, const std::string& key,
                       Random& random) {
    for (Store* store :
         {static_cast<Store*>(&store_), static_cast<Store*>(&memory_)}) {
      Random same = random;
      BlockingStore calls(*store);
      BeginCommand begin = MakeBegin(key, "a1");
      begin.id.client_id = client_id;
      begin.ttl = absl::Seconds(10 + static_cast<int>(same() % 100));
      if (same() % 5 == 0) begin.on_lease_expiry = OnLeaseExpiry::kHold;
      const int64_t fence = Get<Started>(calls.Begin(begin)).fence;
      if (same() % 2 == 0) {
        ExtendCommand extend = MakeExtend(begin, fence);
        extend.checkpoint = std::string(1 + same() % 4096, '\0');
        ASSERT_THAT(calls.Extend(extend), IsOk());
      }
      if (same() % 3 == 0) {
        ASSERT_THAT(calls.Release(MakeRelease(begin, fence)), IsOk());
      } else if (same() % 3 != 0) {
        CompleteCommand complete = MakeComplete(begin, fence, "");
        complete.response = RandomResponse(same);
        ASSERT_THAT(calls.Complete(complete), IsOk());
      }
    }
    random.discard(20);
  }

  template <typename Random>
  static Response RandomResponse(Random& random) {
    Response response;
    response.body_omitted = random() % 4 == 0;
    if (!response.body_omitted) {
      response.body = std::string(random() % 20'000, '\xff');
    }
    for (size_t i = 0; i < random() % 4; ++i) {
      response.headers.push_back(
          {"x-\"quoted\"", std::string(random() % 50, '\\') + "\u00e9"});
    }
    return response;
  }

  // From the table itself, without the function.
  Sum PlainCount(const std::string& pattern) {
    const bool is_prefix = pattern.ends_with('*');
    const std::string prefix =
        is_prefix ? pattern.substr(0, pattern.size() - 1) : pattern;
    const auto rows =
        session_
            .RunWith(
                absl::StrCat(
                    "SELECT count(*), count(*) FILTER (WHERE live),"
                    " coalesce(sum(bytes) FILTER (WHERE live), 0) FROM ("
                    " SELECT (expires_at <= to_timestamp("
                    "dedupe.now_us()::float8 / 1000000)) IS NOT TRUE AS"
                    " live, coalesce(length(response_body), 0) +"
                    " coalesce(length(checkpoint), 0) + coalesce("
                    "octet_length(response_headers::text), 0) AS bytes"
                    " FROM dedupe.record WHERE ",
                    is_prefix ? "starts_with(client_id, $1)" : "client_id = $1",
                    ") AS r"),
                {prefix})
            .rows;
    return {std::stoll(rows[0][0]), std::stoll(rows[0][1]),
            std::stoll(rows[0][2])};
  }

  const std::string database_;
  const std::string url_;
  Session session_;
  TestClock clock_;
  PostgresStore store_;
  MemoryStore memory_;
};

TEST_F(UsageTest, NothingIsNothing) {
  const auto answer =
      BlockingStore(store_).MeasureUsage({.pattern = "*", .row_limit = 10});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->rows, 0);
  EXPECT_EQ(answer->live_keys, 0);
  EXPECT_EQ(answer->stored_bytes, 0);
  EXPECT_EQ(answer->last_key, "");
  EXPECT_EQ(answer->decided_at, clock_.Now());
}

TEST_F(UsageTest, IsWhatAPlainCountSays) {
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  for (const char* client_id : kClientIds) {
    for (size_t i = 0; i < 1 + random() % 6; ++i) {
      AddRandomRecord(client_id, absl::StrCat("k", i, kClientIds[i]), random);
    }
  }
  // Some expire, some do not.
  clock_.Advance(absl::Seconds(60));
  const Sum all = PlainCount("*");
  ASSERT_GT(all.live_keys, 10);
  ASSERT_LT(all.live_keys, all.rows - 10);
  for (const char* pattern : kPatterns) {
    const Sum expected = PlainCount(pattern);
    for (const int row_limit : {1, 2, 7, 1000}) {
      EXPECT_EQ(Measure(store_, pattern, row_limit), expected)
          << pattern << " by " << row_limit;
    }
    // The model has all of them, since nothing was swept.
    EXPECT_EQ(Measure(memory_, pattern, 3), expected) << pattern;
  }
  EXPECT_EQ(Measure(store_, "a*", 7).rows, Measure(store_, "a*", 1).rows);
}

TEST_F(UsageTest, RowLimitHasBounds) {
  for (const int bad : {0, -1, 100'001}) {
    EXPECT_FALSE(BlockingStore(store_)
                     .MeasureUsage({.pattern = "*", .row_limit = bad})
                     .ok());
  }
  EXPECT_EQ(session_.Run("SELECT dedupe.usage('*', '', '', NULL)").sqlstate,
            "22023");
}

// A page costs what its rows cost, wherever in the table it is, and whatever
// lies in their bodies.
TEST_F(UsageTest, ReadsNoMoreThanItsRows) {
  ASSERT_EQ(
      session_
          .Run("INSERT INTO dedupe.record (fence, ttl_us, created_at,"
               " started_at, expires_at, reap_after, attempt_number, state,"
               " on_lease_expiry, taken_over, client_id, key, operation,"
               " attempt_id, fingerprint, completed_at, response_code,"
               " response_body) SELECT i, 1000000, now(), now(), now() +"
               " interval '1 h', now(), 1, 'completed', 'takeover', false,"
               " 'shop/' || i % 10, 'k' || i, '', 'a', '\\x01', now(), 200,"
               " decode(repeat('ff', 100), 'hex')"
               " FROM generate_series(1, 100000) AS i;"
               " ANALYZE dedupe.record")
          .sqlstate,
      "");
  const auto blocks = [&] {
    session_.Run("SELECT pg_stat_force_next_flush()");
    return std::stoll(
        session_.Value("SELECT heap_blks_hit + heap_blks_read FROM"
                       " pg_statio_all_tables WHERE relid ="
                       " 'dedupe.record'::regclass"));
  };
  for (const char* pattern : {"shop/7", "shop/7*", "*"}) {
    const int64_t before = blocks();
    ASSERT_EQ(session_.Value(absl::StrCat("SELECT examined FROM dedupe.usage('",
                                          pattern, "', 'shop/7', 'k5', 1000)")),
              "1000");
    // A block of the heap for each row at most.
    EXPECT_LE(blocks() - before, 1100) << pattern;
  }
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(Measure(store_, "*", 10'000).live_keys, 100'000);
  std::printf("usage: 100000 records in %lld ms\n",
              static_cast<long long>(
                  std::chrono::duration_cast<std::chrono::milliseconds>(
                      std::chrono::steady_clock::now() - started)
                      .count()));
}

}  // namespace
}  // namespace dedupe::testing
