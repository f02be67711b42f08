// Writes PostgreSQL's text form of a one-dimensional array, such as
// {"a","b",NULL}.
#ifndef DEDUPE_SERVER_STORE_SQL_ARRAY_H_
#define DEDUPE_SERVER_STORE_SQL_ARRAY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dedupe {

class SqlArray {
 public:
  void AppendNull() { Append("NULL"); }
  void AppendInteger(int64_t value);
  void AppendBoolean(bool value) { Append(value ? "t" : "f"); }
  // Text must not hold NUL, which PostgreSQL cannot store.
  void AppendText(absl::string_view text);
  // bytea, as hexadecimal digits.
  void AppendBytes(absl::string_view bytes);

  std::string Take() &&;

 private:
  void Append(absl::string_view raw);

  std::string literal_ = "{";
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_SQL_ARRAY_H_
