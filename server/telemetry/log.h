// One line for each event, on standard error, as JSON or as text. Keys,
// responses, tokens and connection strings never go into a field; a key is
// named by KeyDigest.
#ifndef DEDUPE_SERVER_TELEMETRY_LOG_H_
#define DEDUPE_SERVER_TELEMETRY_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/string_view.h"
#include "server/service/record.h"

namespace dedupe {

enum class Severity { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kJson, kText };

struct LogField {
  LogField(const char* the_name, std::string text)
      : name(the_name), value(std::move(text)) {}
  LogField(const char* the_name, const char* text)
      : name(the_name), value(std::string(text)) {}
  LogField(const char* the_name, int64_t number)
      : name(the_name), value(number) {}
  LogField(const char* the_name, int number)
      : name(the_name), value(static_cast<int64_t>(number)) {}
  LogField(const char* the_name, double number)
      : name(the_name), value(number) {}
  LogField(const char* the_name, bool truth) : name(the_name), value(truth) {}

  const char* name;
  std::variant<std::string, int64_t, double, bool> value;
};

// Before the first thread. Without it: JSON, from kInfo.
void ConfigureLog(LogFormat format, Severity least);

// Whether such a line would be written: for fields that cost something.
bool LogEnabled(Severity severity);

// `event` is a constant in snake_case, the same for every such event. From any
// thread.
void Log(Severity severity, const char* event,
         std::initializer_list<LogField> fields = {});

// Sixteen hexadecimal digits that name a record without telling its key: the
// first 8 bytes of SHA-256 over both parts, each with its length.
std::string KeyDigest(const RecordId& id);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TELEMETRY_LOG_H_
