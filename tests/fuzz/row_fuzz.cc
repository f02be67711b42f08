// server/store/decode.h: what the database answers. An input is a digit that
// chooses the decoder, and a row as COPY writes one: columns with tabs between,
// \N for NULL.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/store/decode.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/check_refusal.h"
#include "tests/support/text_row.h"

namespace dedupe {
namespace {

using ::dedupe::testing::Check;
using ::dedupe::testing::CheckRefusal;
using ::dedupe::testing::ResultOf;
using ::dedupe::testing::TextRow;

// More than any statement has.
constexpr size_t kColumnsMax = 24;

TextRow ParseRow(absl::string_view text) {
  TextRow row;
  for (const absl::string_view column : absl::StrSplit(text, '\t')) {
    // A value of PostgreSQL ends at a NUL.
    row.emplace_back(std::string(column.substr(0, column.find('\0'))));
    if (column == "\\N") row.back() = std::nullopt;
    if (row.size() == kColumnsMax) break;
  }
  return row;
}

// A number that was read is the one that is there, not its lower half.
void CheckNumber(const TextRow& row, size_t column, int64_t read) {
  int64_t there = 0;
  Check(column < row.size() && row[column].has_value() &&
            absl::SimpleAtoi(*row[column], &there) && there == read,
        "a number is read as it is");
}

void CheckBytes(const TextRow& row, size_t column, const std::string& read) {
  const bool there = column < row.size() && row[column].has_value();
  const std::string digits = there ? *row[column] : "";
  Check(absl::BytesToHexString(read) == absl::AsciiStrToLower(digits),
        "bytes are read as they are");
}

void CheckResponse(const TextRow& row, size_t column,
                   const Response& response) {
  CheckNumber(row, column, response.code);
  CheckBytes(row, column + 2, response.body);
  const auto headers = DecodeHeaders(EncodeHeaders(response.headers));
  Check(headers.ok() && *headers == response.headers,
        "headers that were read can be written");
}

void CheckAnswer(const TextRow& row, const BeginAnswer& answer) {
  if (const auto* started = std::get_if<Started>(&answer.outcome)) {
    CheckNumber(row, 3, started->fence);
    CheckNumber(row, 4, started->attempt_number);
    CheckBytes(row, 7, started->checkpoint);
  } else if (const auto* replay = std::get_if<Replay>(&answer.outcome)) {
    CheckResponse(row, 13, replay->response);
  } else if (const auto* in_doubt = std::get_if<InDoubt>(&answer.outcome)) {
    CheckNumber(row, 4, in_doubt->attempt_number);
  }
}

void CheckAnswer(const TextRow& row, const LookupAnswer& answer) {
  if (answer.state == RecordState::kAbsent) return;
  CheckNumber(row, 4, answer.attempt_number);
  if (answer.response.has_value()) CheckResponse(row, 10, *answer.response);
}

void CheckAnswer(const TextRow& row, const ReapAnswer& answer) {
  CheckNumber(row, 0, answer.examined);
  CheckNumber(row, 1, answer.deleted);
}

void CheckAnswer(const TextRow& row, const ProbeAnswer& answer) {
  CheckNumber(row, 0, answer.schema_version);
  CheckNumber(row, 1, answer.compatible_from);
}

template <typename Answer>
void CheckAnswer(const TextRow& /*row*/, const Answer& /*answer*/) {}

template <typename Answer>
void Try(absl::string_view text,
         absl::StatusOr<Answer> (*decode)(const pqxx::row&)) {
  const TextRow row = ParseRow(text);
  const pqxx::result result = ResultOf(row);
  // Named before it is decoded, as the store does.
  DecodeId(result[0]);
  IsRetry(result[0]);
  const auto answer = decode(result[0]);
  if (answer.ok()) {
    CheckAnswer(row, *answer);
  } else {
    CheckRefusal(answer.status());
  }
}

void TryHeaders(absl::string_view json) {
  const auto headers = DecodeHeaders(json);
  if (!headers.ok()) {
    CheckRefusal(headers.status());
    return;
  }
  const auto again = DecodeHeaders(EncodeHeaders(*headers));
  Check(again.ok() && *again == *headers, "what was written is read back");
}

// A statement that should give one row and gives none.
void TryNoRow() {
  const pqxx::result nothing = ResultOf({});
  CheckRefusal(DecodeReap(nothing[0]).status());
  CheckRefusal(DecodeProbe(nothing[0]).status());
}

}  // namespace
}  // namespace dedupe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dedupe;  // NOLINT(google-build-using-namespace)
  if (size == 0) {
    TryNoRow();
    return 0;
  }
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  switch (data[0] % 8) {
    case 0:
      Try(text, DecodeBegin);
      break;
    case 1:
      Try(text, DecodeComplete);
      break;
    case 2:
      Try(text, DecodeExtend);
      break;
    case 3:
      Try(text, DecodeRelease);
      break;
    case 4:
      Try(text, DecodeLookup);
      break;
    case 5:
      Try(text, DecodeReap);
      break;
    case 6:
      Try(text, DecodeProbe);
      break;
    default:
      TryHeaders(text);
  }
  return 0;
}
