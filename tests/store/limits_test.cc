// One set of bounds, three places: limits.h, which the server checks; the
// database, which holds whoever comes by the SQL door to them; and the comments
// of the .proto file, which are the callers' manual.
#include "server/service/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <random>
#include <regex>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/store/postgres_store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"
#include "tests/store/session.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"

namespace dedupe::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// What a Begin or Complete by the SQL door brings; each test changes one thing.
struct Call {
  std::string client_id = "acme";
  std::string key = "k";
  std::string operation = "";
  std::string fingerprint = "\x01";
  std::string attempt_id = "a1";
  std::optional<absl::Duration> lease;
  std::optional<absl::Duration> ttl;
};

std::string Hex(const std::string& bytes) {
  return "\\x" + absl::BytesToHexString(bytes);
}

std::string Interval(std::optional<absl::Duration> duration) {
  return duration.has_value()
             ? absl::StrCat(absl::ToInt64Microseconds(*duration),
                            " microseconds")
             : "NULL";
}

// A check of the table's, or of the functions' arguments.
auto Refused() {
  return AnyOf(std::string("23514"), std::string("22023"),
               std::string("22004"));
}

class LimitsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    database = PostgresCluster::Shared().CreateMigratedDatabase();
  }

  LimitsTest() : session_(PostgresCluster::Shared().Url(database)) {
    session_.Run("TRUNCATE dedupe.record");
  }

  // The SQLSTATE, empty if it was started.
  std::string Begin(const Call& call) {
    session_.Run("TRUNCATE dedupe.record");
    return session_
        .RunWith(
            absl::StrCat(
                "SELECT dedupe.begin($1, $2, $3, $4::bytea, $5, nullif($6,"
                " 'NULL')::interval, nullif($7, 'NULL')::interval)"),
            {call.client_id, call.key, call.operation, Hex(call.fingerprint),
             call.attempt_id, Interval(call.lease), Interval(call.ttl)})
        .sqlstate;
  }

  template <typename Change>
  std::string BeginWith(Change change) {
    Call call;
    change(call);
    return Begin(call);
  }

  // A text field holds so many bytes and not one more.
  void ExpectTextBound(std::string Call::*field, size_t bytes_max) {
    EXPECT_EQ(
        BeginWith([&](Call& c) { c.*field = std::string(bytes_max, 'x'); }),
        "");
    EXPECT_THAT(
        BeginWith([&](Call& c) { c.*field = std::string(bytes_max + 1, 'x'); }),
        Refused());
    // Bytes, not characters.
    EXPECT_THAT(BeginWith([&](Call& c) {
                  c.*field = std::string(bytes_max - 1, 'x') + "\u00e9";
                }),
                Refused());
  }

  void ExpectDurationBounds(std::optional<absl::Duration> Call::*field,
                            absl::Duration least, absl::Duration most) {
    const absl::Duration step = absl::Microseconds(1);
    for (const absl::Duration good : {least, most}) {
      EXPECT_EQ(BeginWith([&](Call& c) { c.*field = good; }), "") << good;
    }
    for (const absl::Duration bad :
         {least - step, most + step, absl::ZeroDuration(), -least}) {
      EXPECT_THAT(BeginWith([&](Call& c) { c.*field = bad; }), Refused())
          << bad;
    }
  }

  static std::string database;
  Session session_;
};

std::string LimitsTest::database;

TEST_F(LimitsTest, ClientId) {
  ExpectTextBound(&Call::client_id, kClientIdBytesMax);
  EXPECT_THAT(BeginWith([](Call& c) { c.client_id = ""; }), Refused());
}

TEST_F(LimitsTest, Key) {
  ExpectTextBound(&Call::key, kKeyBytesMax);
  EXPECT_THAT(BeginWith([](Call& c) { c.key = ""; }), Refused());
}

TEST_F(LimitsTest, Operation) {
  ExpectTextBound(&Call::operation, kOperationBytesMax);
  EXPECT_EQ(BeginWith([](Call& c) { c.operation = ""; }), "");
}

TEST_F(LimitsTest, AttemptId) {
  ExpectTextBound(&Call::attempt_id, kAttemptIdBytesMax);
  EXPECT_THAT(BeginWith([](Call& c) { c.attempt_id = ""; }), Refused());
}

TEST_F(LimitsTest, Fingerprint) {
  const auto of = [&](size_t bytes) {
    return BeginWith(
        [&](Call& c) { c.fingerprint = std::string(bytes, '\xff'); });
  };
  EXPECT_EQ(of(1), "");
  EXPECT_EQ(of(kFingerprintBytesMax), "");
  EXPECT_THAT(of(0), Refused());
  EXPECT_THAT(of(kFingerprintBytesMax + 1), Refused());
}

TEST_F(LimitsTest, Lease) {
  ExpectDurationBounds(&Call::lease, kLeaseMin, kLeaseMax);
}

TEST_F(LimitsTest, Ttl) { ExpectDurationBounds(&Call::ttl, kTtlMin, kTtlMax); }

// Bounds count for a record that is there as for a new one.
TEST_F(LimitsTest, DurationsOfEveryHolder) {
  ASSERT_EQ(Begin(Call()), "");
  for (const char* durations :
       {"interval '99 ms', NULL", "interval '16 minutes', NULL",
        "NULL, interval '99 ms'", "NULL, interval '32 days'"}) {
    EXPECT_THAT(session_
                    .Run(absl::StrCat(
                        "SELECT dedupe.begin('acme', 'k', '', '\\x01', 'a1', ",
                        durations, ")"))
                    .sqlstate,
                Refused())
        << durations;
  }
  const std::string fence = session_.Value("SELECT fence FROM dedupe.record");
  for (const char* lease : {"99 ms", "15 minutes 1 microsecond", "-1 s"}) {
    EXPECT_THAT(session_
                    .Run(absl::StrCat("SELECT dedupe.extend('acme', 'k', 'a1',",
                                      fence, ", interval '", lease, "')"))
                    .sqlstate,
                Refused())
        << lease;
  }
}

TEST_F(LimitsTest, ControlCharacters) {
  for (std::string Call::*field :
       {&Call::client_id, &Call::key, &Call::operation, &Call::attempt_id}) {
    for (const char* bad : {"\u0001", "\t", "\n", "\u001f", "\u007f", "\u0080",
                            "\u0085", "\u009f"}) {
      EXPECT_THAT(BeginWith([&](Call& c) { c.*field = bad; }), Refused())
          << absl::CHexEscape(bad);
    }
    for (const char* good :
         {" ", "~", "\u00a0", "\u00e9", "\u2028", "\U0001f600"}) {
      EXPECT_EQ(BeginWith([&](Call& c) { c.*field = good; }), "")
          << absl::CHexEscape(good);
    }
  }
}

TEST_F(LimitsTest, Body) {
  const auto complete = [&](size_t bytes) {
    EXPECT_EQ(Begin(Call()), "");
    return session_
        .Run(absl::StrCat("SELECT dedupe.complete('acme', 'k', 'a1', fence,"
                          " 200, decode(repeat('ff', ",
                          bytes, "), 'hex')) FROM dedupe.record"))
        .sqlstate;
  };
  EXPECT_EQ(complete(0), "");
  EXPECT_EQ(complete(kBodyBytesMax), "");
  EXPECT_THAT(complete(kBodyBytesMax + 1), Refused());
}

TEST_F(LimitsTest, Headers) {
  const auto complete = [&](const std::string& headers) {
    EXPECT_EQ(Begin(Call()), "");
    return session_
        .Run(absl::StrCat("SELECT dedupe.complete('acme', 'k', 'a1', fence,"
                          " 200, '', '",
                          headers, "') FROM dedupe.record"))
        .sqlstate;
  };
  EXPECT_EQ(complete("[]"), "");
  EXPECT_EQ(complete(R"([["a", "1"], ["a", "1"]])"), "");
  for (const char* bad : {R"({"a": "1"})", R"(["a", "1"])", R"([["a"]])",
                          R"([["a", 1]])", R"([["a", "1", "2"]])", R"("a")"}) {
    EXPECT_THAT(complete(bad), Refused()) << bad;
  }
}

TEST_F(LimitsTest, Checkpoint) {
  const auto extend = [&](size_t bytes) {
    EXPECT_EQ(Begin(Call()), "");
    return session_
        .Run(absl::StrCat("SELECT dedupe.extend('acme', 'k', 'a1', fence, NULL,"
                          " decode(repeat('00', ",
                          bytes, "), 'hex')) FROM dedupe.record"))
        .sqlstate;
  };
  EXPECT_EQ(extend(kCheckpointBytesMax), "");
  EXPECT_THAT(extend(kCheckpointBytesMax + 1), Refused());
}

// An index entry has room for about 2,700 bytes, unless they can be compressed.
TEST_F(LimitsTest, LongestNamesFitTheIndexWhateverTheyHold) {
  PostgresStore store(
      {.database_url = PostgresCluster::Shared().Url(database)});
  std::mt19937 random(7);
  const auto incompressible = [&random](size_t bytes) {
    std::string text;
    while (text.size() + 3 <= bytes) {
      // CJK ideographs: three bytes each, all of them good UTF-8.
      const auto code = static_cast<uint32_t>(0x4e00 + random() % 0x5000);
      text += static_cast<char>(0xe0 | code >> 12);
      text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      text += static_cast<char>(0x80 | (code & 0x3f));
    }
    return text + std::string(bytes - text.size(), 'x');
  };
  for (const bool compressible : {true, false}) {
    for (const size_t bytes : {size_t{1}, size_t{254}, kKeyBytesMax}) {
      BeginCommand begin = MakeBegin("", "a1");
      begin.id = compressible ? RecordId{std::string(kClientIdBytesMax, 'a'),
                                         std::string(bytes, 'a')}
                              : RecordId{incompressible(kClientIdBytesMax),
                                         incompressible(bytes)};
      const auto answer = BlockingStore(store).Begin(begin);
      EXPECT_TRUE(Is<Started>(answer)) << Describe(answer);
      EXPECT_TRUE(Get<Started>(BlockingStore(store).Begin(begin)).resumed);
    }
  }
}

// The functions know them, so that they are the same through every door.
TEST_F(LimitsTest, Defaults) {
  ASSERT_EQ(Begin(Call()), "");
  EXPECT_EQ(session_.Value("SELECT lease_expires_at - started_at FROM"
                           " dedupe.record"),
            "00:00:30");
  EXPECT_EQ(session_.Value("SELECT ttl_us FROM dedupe.record"),
            absl::StrCat(absl::ToInt64Microseconds(absl::Hours(24))));
  EXPECT_EQ(session_.Value("SELECT on_lease_expiry FROM dedupe.record"),
            "takeover");
}

// Seconds, whatever the calendar does in the session's time zone.
TEST_F(LimitsTest, DayIsTwentyFourHours) {
  session_.Run("SET timezone = 'America/New_York'");
  ASSERT_EQ(Begin(Call()), "");
  EXPECT_EQ(session_.Value("SELECT extract(epoch FROM expires_at -"
                           " lease_expires_at)::bigint FROM dedupe.record"),
            "86400");
}

// All comments as one line.
std::string Manual() {
  std::ifstream file(SourceDirectory() + "/proto/dedupe/v1/dedupe.proto");
  std::stringstream content;
  content << file.rdbuf();
  const std::string text =
      std::regex_replace(content.str(), std::regex("//"), " ");
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

// The comment of a field, so that the number is that field's.
std::string BeforeField(const std::string& manual, const std::string& message,
                        const std::string& field) {
  const size_t start = manual.find("message " + message + " {");
  const size_t end = manual.find(" " + field + " = ", start);
  EXPECT_NE(end, std::string::npos) << field;
  std::string before = manual.substr(start, end - start);
  // From the field before it on.
  std::smatch last;
  while (std::regex_search(before, last, std::regex(" = [0-9]+;"))) {
    before = last.suffix();
  }
  return before;
}

TEST(ManualTest, TellsTheBounds) {
  const std::string manual = Manual();
  const auto before = [&](const char* message, const char* field) {
    return BeforeField(manual, message, field);
  };
  const auto kib = [](size_t bytes) {
    return absl::StrCat(bytes / 1024, " KiB");
  };
  EXPECT_THAT(before("BeginRequest", "client_id"),
              HasSubstr(absl::StrCat("1-", kClientIdBytesMax, " bytes")));
  EXPECT_THAT(before("BeginRequest", "key"),
              HasSubstr(absl::StrCat("1-", kKeyBytesMax, " bytes")));
  EXPECT_THAT(before("BeginRequest", "operation"),
              HasSubstr(absl::StrCat("0-", kOperationBytesMax, " bytes")));
  EXPECT_THAT(before("BeginRequest", "fingerprint"),
              HasSubstr(absl::StrCat("1-", kFingerprintBytesMax, " bytes")));
  EXPECT_THAT(before("BeginRequest", "attempt_id"),
              HasSubstr(absl::StrCat("1-", kAttemptIdBytesMax, " bytes")));
  EXPECT_THAT(before("BeginRequest", "lease"),
              HasSubstr(absl::StrCat(
                  "Default 30 s; ", absl::ToInt64Milliseconds(kLeaseMin),
                  " ms to ", absl::ToInt64Minutes(kLeaseMax), " min")));
  EXPECT_THAT(before("BeginRequest", "ttl"),
              HasSubstr(absl::StrCat(
                  "Default 24 h; ", absl::ToInt64Milliseconds(kTtlMin),
                  " ms to ", absl::ToInt64Hours(kTtlMax) / 24, " days")));
  EXPECT_THAT(before("BeginRequest", "wait"),
              HasSubstr(absl::StrCat("at most ", absl::ToInt64Seconds(kWaitMax),
                                     " s")));
  EXPECT_THAT(before("InProgress", "retry_after"),
              HasSubstr(absl::StrCat(
                  "at most ", absl::ToInt64Seconds(kRetryAfterMax), " s")));
  EXPECT_THAT(
      before("Response", "headers"),
      HasSubstr(absl::StrCat("At most ", kHeadersMax, ", together at most ",
                             kib(kHeadersBytesMax))));
  EXPECT_THAT(before("Response", "body"), HasSubstr(kib(kBodyBytesMax)));
  EXPECT_THAT(before("ExtendRequest", "checkpoint"),
              HasSubstr(kib(kCheckpointBytesMax)));
  EXPECT_THAT(manual,
              HasSubstr(absl::StrCat("larger than ",
                                     kMessageBytesMax / 1024 / 1024, " MiB")));
  EXPECT_THAT(manual, HasSubstr(absl::StrCat(
                          "a call without one gets ",
                          absl::ToInt64Seconds(kDeadlineDefault), " s")));
}

}  // namespace
}  // namespace dedupe::testing
