// Reasons: how they travel in a status, and that the head of dedupe.proto,
// which is the callers' manual, lists just those that there are.
#include "server/service/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/support/process.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr size_t kReasons = static_cast<size_t>(Reason::kStoreBroken) + 1;

std::vector<Reason> Reasons() {
  std::vector<Reason> reasons;
  for (size_t i = 1; i < kReasons; ++i) {
    reasons.push_back(static_cast<Reason>(i));
  }
  return reasons;
}

TEST(ReasonTest, TravelsInItsStatus) {
  for (const Reason reason : Reasons()) {
    const absl::Status status = Refusal(reason);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(ReasonOf(status), reason);
    EXPECT_EQ(FieldOf(status), "");
  }
}

TEST(ReasonTest, TravelsWithItsField) {
  for (const Reason reason : Reasons()) {
    const absl::Status status = Refusal(reason, "response.headers[3].name");
    EXPECT_EQ(ReasonOf(status), reason);
    EXPECT_EQ(FieldOf(status), "response.headers[3].name");
    EXPECT_EQ(status.code(), Refusal(reason).code());
  }
}

TEST(ReasonTest, SurvivesCopies) {
  const absl::Status original = Refusal(Reason::kLeaseLost, "fence");
  absl::Status copy = original;
  copy.SetPayload("another/payload", absl::Cord("x"));
  EXPECT_EQ(ReasonOf(copy), Reason::kLeaseLost);
  EXPECT_EQ(FieldOf(copy), "fence");
  EXPECT_EQ(ReasonOf(original), Reason::kLeaseLost);
}

TEST(ReasonTest, OtherStatusesHaveNone) {
  absl::Status foreign = absl::UnavailableError("connection refused");
  foreign.SetPayload("another/payload", absl::Cord("38"));
  for (const absl::Status& status :
       {absl::OkStatus(), absl::InternalError("bug"), foreign}) {
    EXPECT_EQ(ReasonOf(status), Reason::kUnknown);
    EXPECT_EQ(FieldOf(status), "");
  }
}

TEST(ReasonTest, NamesAreDistinct) {
  std::set<absl::string_view> names;
  for (const Reason reason : Reasons()) {
    const absl::string_view name = ReasonName(reason);
    if (name.empty()) continue;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(ReasonName(Reason::kUnknown), "");
}

// Without a name goes only what a code of gRPC's own says completely.
TEST(ReasonTest, OnlyGrpcsOwnCodesHaveNoName) {
  for (const Reason reason : Reasons()) {
    const absl::Status status = Refusal(reason);
    EXPECT_EQ(ReasonName(reason).empty(),
              absl::IsDeadlineExceeded(status) || absl::IsCancelled(status))
        << ::testing::PrintToString(reason);
  }
}

// Callers see them, so they are fixed and short, and one line.
TEST(ReasonTest, SentencesAreOneShortLine) {
  for (const Reason reason : Reasons()) {
    const std::string sentence(Refusal(reason, "key").message());
    EXPECT_THAT(sentence, Not(IsEmpty()));
    EXPECT_LT(sentence.size(), 100u) << sentence;
    EXPECT_FALSE(absl::StrContains(sentence, '\n')) << sentence;
    EXPECT_EQ(sentence, Refusal(reason).message());
  }
}

// --- The manual --------------------------------------------------------------

// From a code, as it is written there, to its reasons.
using Manual = std::map<std::string, std::set<std::string>>;

bool IsCapitals(absl::string_view word) {
  for (const char c : word) {
    if (!absl::ascii_isupper(static_cast<unsigned char>(c)) && c != '_') {
      return false;
    }
  }
  return word.size() > 2;
}

// The capitals with which a line begins: "KEY_EMPTY, KEY_TOO_LONG  and so on".
std::vector<std::string> LeadingCapitals(absl::string_view line) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(line, ' ')) {
    const bool more_follow = absl::ConsumeSuffix(&word, ",");
    if (!IsCapitals(word)) break;
    words.emplace_back(word);
    if (!more_follow) break;
  }
  return words;
}

// Codes stand at the third column of the comment, reasons at the fifth.
Manual ReadManual() {
  std::ifstream file(testing::SourceDirectory() +
                     "/proto/dedupe/v1/dedupe.proto");
  Manual manual;
  std::string line;
  std::string code;
  while (std::getline(file, line) && !absl::StartsWith(line, "syntax")) {
    absl::string_view text = line;
    if (!absl::ConsumePrefix(&text, "//   ")) continue;
    const bool is_reason = absl::ConsumePrefix(&text, "  ");
    for (const std::string& word : LeadingCapitals(text)) {
      if (is_reason) {
        manual[code].insert(word);
      } else {
        code = word;
        manual[code];
      }
    }
  }
  return manual;
}

Manual CodedManual() {
  Manual manual;
  for (const Reason reason : Reasons()) {
    std::set<std::string>& names =
        manual[absl::StatusCodeToString(Refusal(reason).code())];
    if (!ReasonName(reason).empty()) {
      names.insert(std::string(ReasonName(reason)));
    }
  }
  return manual;
}

TEST(ReasonManualTest, IsFound) {
  EXPECT_THAT(ReadManual(), SizeIs(10))
      << "is DEDUPE_SOURCE_DIR the root of the sources?";
}

TEST(ReasonManualTest, ListsEveryReasonUnderItsCodeAndNoOther) {
  EXPECT_EQ(ReadManual(), CodedManual());
}

}  // namespace
}  // namespace dedupe
