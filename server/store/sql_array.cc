#include "server/store/sql_array.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dedupe {

void SqlArray::Append(absl::string_view raw) {
  if (literal_.size() > 1) literal_ += ',';
  literal_.append(raw.data(), raw.size());
}

void SqlArray::AppendInteger(int64_t value) {
  Append(absl::AlphaNum(value).Piece());
}

void SqlArray::AppendText(absl::string_view text) {
  Append("\"");
  for (const char c : text) {
    if (c == '"' || c == '\\') literal_ += '\\';
    literal_ += c;
  }
  literal_ += '"';
}

void SqlArray::AppendBytes(absl::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  // bytea's own backslash, escaped once for the array.
  Append("\"\\\\x");
  literal_.reserve(literal_.size() + 2 * bytes.size() + 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    literal_ += kDigits[byte >> 4];
    literal_ += kDigits[byte & 0xf];
  }
  literal_ += '"';
}

std::string SqlArray::Take() && {
  literal_ += '}';
  return std::move(literal_);
}

}  // namespace dedupe
