// Rows as the database sends them. What does not read as what it should be is
// refused rather than made into something else.
#include "server/store/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>

#include "server/service/reason.h"
#include "tests/support/text_row.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::dedupe::testing::IsOk;
using ::dedupe::testing::IsRefusal;
using ::dedupe::testing::ResultOf;
using ::dedupe::testing::TextRow;

constexpr char kTime[] = "1700000000000001";

// The columns of kBegin, of an attempt that has just started.
TextRow StartedRow() {
  TextRow row(18);
  row[0] = "shop";
  row[1] = "order-1";
  row[2] = "started";
  row[3] = "7";         // fence
  row[4] = "2";         // attempt_number
  row[5] = "f";         // resumed
  row[6] = "t";         // taken_over
  row[7] = "68616c66";  // checkpoint
  row[10] = kTime;      // lease_expires_at
  row[17] = kTime;      // decided_at
  return row;
}

struct Change {
  const char* description;
  size_t column;
  std::optional<std::string> text;
};

void PrintTo(const Change& change, std::ostream* out) {
  *out << change.description;
}

TEST(DecodeBeginTest, ReadsAnAttemptThatStarted) {
  const pqxx::result result = ResultOf(StartedRow());
  const auto answer = DecodeBegin(result[0]);
  ASSERT_THAT(answer, IsOk());
  const auto& started = std::get<Started>(answer->outcome);
  EXPECT_EQ(started.fence, 7);
  EXPECT_EQ(started.attempt_number, 2);
  EXPECT_FALSE(started.resumed);
  EXPECT_TRUE(started.taken_over);
  EXPECT_EQ(started.checkpoint, "half");
}

class DamagedRowTest : public ::testing::TestWithParam<Change> {};

TEST_P(DamagedRowTest, IsRefused) {
  TextRow row = StartedRow();
  row[GetParam().column] = GetParam().text;
  const pqxx::result result = ResultOf(row);
  EXPECT_THAT(DecodeBegin(result[0]), IsRefusal(Reason::kRecordDamaged));
}

// A number of more than 32 bits used to be cut to its lower half, digits that
// are none were read as some, and every flag but "t" was false.
INSTANTIATE_TEST_SUITE_P(
    Values, DamagedRowTest,
    ::testing::Values(
        Change{"outcome unknown", 2, "paused"},
        Change{"outcome null", 2, std::nullopt},
        Change{"fence null", 3, std::nullopt},
        Change{"fence beyond 64 bits", 3, "9223372036854775808"},
        Change{"fence no number", 3, "seven"},
        Change{"attempt beyond 32 bits", 4, "4294967298"},
        Change{"attempt just beyond", 4, "2147483648"},
        Change{"flag null", 5, std::nullopt}, Change{"flag empty", 5, ""},
        Change{"flag no flag", 5, "maybe"}, Change{"odd digits", 7, "686"},
        Change{"no digits", 7, "half"}, Change{"time null", 10, std::nullopt}));

TEST(DecodeReapTest, NoRowIsRefused) {
  const pqxx::result result = ResultOf({});
  EXPECT_THAT(DecodeReap(result[0]), IsRefusal(Reason::kRecordDamaged));
}

TEST(DecodeProbeTest, NoRowIsRefused) {
  const pqxx::result result = ResultOf({});
  EXPECT_THAT(DecodeProbe(result[0]), IsRefusal(Reason::kRecordDamaged));
}

}  // namespace
}  // namespace dedupe
