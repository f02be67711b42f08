#include "server/telemetry/log.h"

#include <openssl/sha.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dedupe {
namespace {

// Ordered, so that every line begins with time, severity and event.
using Json = nlohmann::ordered_json;

std::atomic<LogFormat> format_in_use{LogFormat::kJson};

spdlog::logger& Logger() {
  // Never destroyed: threads may log until the process ends.
  static spdlog::logger& logger = *[] {
    auto* made = new spdlog::logger(
        "dedupe", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return logger;
}

spdlog::level::level_enum LevelOf(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return spdlog::level::debug;
    case Severity::kInfo:
      return spdlog::level::info;
    case Severity::kWarning:
      return spdlog::level::warn;
    case Severity::kError:
      break;
  }
  return spdlog::level::err;
}

const char* NameOf(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return "debug";
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      break;
  }
  return "error";
}

// What is not UTF-8 is replaced, so that every line can be parsed.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ToJson(const LogField& field) {
  return std::visit([](const auto& value) { return Json(value); }, field.value);
}

}  // namespace

void ConfigureLog(LogFormat format, Severity least) {
  format_in_use = format;
  Logger().set_level(LevelOf(least));
}

bool LogEnabled(Severity severity) {
  return Logger().should_log(LevelOf(severity));
}

void Log(Severity severity, const char* event,
         std::initializer_list<LogField> fields) {
  if (!LogEnabled(severity)) return;
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                            absl::UTCTimeZone());
  std::string line;
  if (format_in_use == LogFormat::kJson) {
    Json json = {
        {"time", time}, {"severity", NameOf(severity)}, {"event", event}};
    for (const LogField& field : fields) json[field.name] = ToJson(field);
    line = Dump(json);
  } else {
    line = absl::StrCat(time, " ", NameOf(severity), " ", event);
    for (const LogField& field : fields) {
      absl::StrAppend(&line, " ", field.name, "=", Dump(ToJson(field)));
    }
  }
  Logger().log(LevelOf(severity), line);
}

std::string KeyDigest(const RecordId& id) {
  const std::string text = absl::StrCat(id.client_id.size(), ":", id.client_id,
                                        id.key.size(), ":", id.key);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), 8));
}

}  // namespace dedupe
