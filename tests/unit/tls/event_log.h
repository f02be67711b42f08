// The events that this process logs, and a way to wait for one.
#ifndef DEDUPE_TESTS_UNIT_TLS_EVENT_LOG_H_
#define DEDUPE_TESTS_UNIT_TLS_EVENT_LOG_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/telemetry/log.h"
#include "tests/support/error_output.h"

namespace dedupe::testing {

class EventLog {
 public:
  EventLog() { ConfigureLog(LogFormat::kJson, Severity::kInfo); }

  // What there is of this name, in order.
  std::vector<nlohmann::json> Events(const std::string& name) const {
    std::vector<nlohmann::json> events;
    const std::string text = output_.text();
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      // gRPC writes lines of its own.
      auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr,
                                        /*allow_exceptions=*/false);
      if (json.is_object() && json.value("event", "") == name) {
        events.push_back(std::move(json));
      }
    }
    return events;
  }

  int Count(const std::string& name) const {
    return static_cast<int>(Events(name).size());
  }

  // The event of this number, of those of the name; at most 10 s.
  nlohmann::json Await(const std::string& name, int number = 1) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (absl::Now() < deadline) {
      const auto events = Events(name);
      if (events.size() >= static_cast<size_t>(number)) {
        return events[static_cast<size_t>(number) - 1];
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    ADD_FAILURE() << "no " << name << " number " << number << " in 10 s:\n"
                  << output_.text();
    return {{"serial", ""}, {"message", ""}, {"severity", ""}};
  }

 private:
  ErrorOutput output_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_TLS_EVENT_LOG_H_
