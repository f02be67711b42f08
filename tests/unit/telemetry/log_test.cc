// What the log writes: one line for each event, which a machine can read
// whatever stands in it, and no key.
#include "server/telemetry/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/error_output.h"

namespace dedupe {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::ErrorOutput;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

class LogTest : public ::testing::Test {
 protected:
  LogTest() { ConfigureLog(LogFormat::kJson, Severity::kInfo); }

  // The one line that an event becomes.
  static std::string LineOf(std::initializer_list<LogField> fields,
                            const char* event = "event") {
    const ErrorOutput output;
    Log(Severity::kInfo, event, fields);
    const std::vector<std::string> lines = output.lines();
    EXPECT_THAT(lines, SizeIs(1));
    return lines.empty() ? "" : lines.front();
  }

  static Json JsonOf(std::initializer_list<LogField> fields) {
    return Json::parse(LineOf(fields));
  }
};

// --- JSON --------------------------------------------------------------------

TEST_F(LogTest, JsonBeginsWithTimeSeverityAndEvent) {
  const Json json = JsonOf({{"zebra", 1}, {"ant", 2}});
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("time", "severity", "event", "zebra", "ant"));
  EXPECT_EQ(json["severity"], "info");
  EXPECT_EQ(json["event"], "event");
}

TEST_F(LogTest, TimeIsUtcWithMilliseconds) {
  const absl::Time before = absl::Now();
  const std::string text = JsonOf({})["time"];
  EXPECT_THAT(text, MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9][0-9][0-9]Z"));
  absl::Time time;
  std::string error;
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error))
      << error;
  EXPECT_GE(time, before - absl::Milliseconds(1));
  EXPECT_LE(time, absl::Now());
}

TEST_F(LogTest, ValuesKeepTheirTypes) {
  const Json json = JsonOf({{"text", std::string("a")},
                            {"literal", "b"},
                            {"number", 7},
                            {"large", std::numeric_limits<int64_t>::min()},
                            {"real", 0.5},
                            {"truth", true}});
  EXPECT_EQ(json["text"], "a");
  EXPECT_EQ(json["literal"], "b");
  EXPECT_EQ(json["number"], 7);
  EXPECT_EQ(json["large"], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(json["real"], 0.5);
  EXPECT_TRUE(json["truth"].is_boolean());
}

TEST_F(LogTest, NumbersThatJsonLacksAreNull) {
  const Json json = JsonOf({{"nan", std::nan("")}, {"inf", HUGE_VAL}});
  EXPECT_TRUE(json["nan"].is_null());
  EXPECT_TRUE(json["inf"].is_null());
}

// A message is somebody else's text: it must neither end the line nor forge
// another, nor be taken for a format.
TEST_F(LogTest, AwkwardTextStaysOneLineThatParses) {
  for (const std::string& text :
       {std::string("a\nb\r\n{\"event\":\"forged\"}"), std::string("\"\\"),
        std::string("{} {0} %s %v"), std::string("\0\x1f\x7f", 3),
        std::string("\xc3\xa9\xe2\x80\xa8")}) {
    EXPECT_EQ(JsonOf({{"message", text}})["message"], text);
  }
}

TEST_F(LogTest, WhatIsNotUtf8IsReplaced) {
  for (const std::string& text :
       {std::string("\xff"), std::string("\xc0\x80"), std::string("\xe2\x82"),
        std::string("\xed\xa0\x80")}) {
    const std::string message =
        JsonOf({{"message", "a" + text + "b"}})["message"];
    EXPECT_THAT(message, MatchesRegex("a(\xef\xbf\xbd)+b"));
  }
}

TEST_F(LogTest, EveryByteCanBeLogged) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const Json json = JsonOf({{"message", text}});
    if (byte < 0x80) {
      EXPECT_EQ(json["message"], text);
    }
  }
}

// --- Text --------------------------------------------------------------------

TEST_F(LogTest, TextIsForPeople) {
  ConfigureLog(LogFormat::kText, Severity::kInfo);
  const std::string line = LineOf({{"address", "127.0.0.1:7733"},
                                   {"count", 3},
                                   {"share", 0.25},
                                   {"truth", false}},
                                  "serving");
  EXPECT_THAT(line, MatchesRegex("[0-9-]+T[0-9:.]+Z info serving "
                                 "address=\"127.0.0.1:7733\" count=3 "
                                 "share=0.25 truth=false"));
}

TEST_F(LogTest, TextStaysOneLineToo) {
  ConfigureLog(LogFormat::kText, Severity::kInfo);
  EXPECT_THAT(LineOf({{"message", "a\n\"b\"\xff"}}),
              EndsWith("message=\"a\\n\\\"b\\\"\xef\xbf\xbd\""));
}

// --- Severity ----------------------------------------------------------------

constexpr Severity kSeverities[] = {Severity::kDebug, Severity::kInfo,
                                    Severity::kWarning, Severity::kError};

TEST_F(LogTest, OnlyTheLeastSeverityAndAboveAreWritten) {
  for (const Severity least : kSeverities) {
    ConfigureLog(LogFormat::kJson, least);
    for (const Severity severity : kSeverities) {
      const ErrorOutput output;
      Log(severity, "event");
      EXPECT_THAT(output.lines(), SizeIs(severity >= least ? 1 : 0));
      EXPECT_EQ(LogEnabled(severity), severity >= least);
    }
  }
}

TEST_F(LogTest, SeveritiesHaveNames) {
  ConfigureLog(LogFormat::kJson, Severity::kDebug);
  std::vector<std::string> names;
  for (const Severity severity : kSeverities) {
    const ErrorOutput output;
    Log(severity, "event");
    names.push_back(Json::parse(output.text())["severity"]);
  }
  EXPECT_THAT(names, ElementsAre("debug", "info", "warning", "error"));
}

// --- Threads -----------------------------------------------------------------

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  std::map<int64_t, int> counts;
  {
    const ErrorOutput output;
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([i] {
        for (int line = 0; line < kLines; ++line) {
          Log(Severity::kInfo, "event",
              {{"thread", i}, {"message", std::string(300, 'x')}});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& line : output.lines()) {
      ++counts[Json::parse(line)["thread"]];
    }
  }
  for (int i = 0; i < kThreads; ++i) EXPECT_EQ(counts[i], kLines);
}

// --- KeyDigest ---------------------------------------------------------------

TEST(KeyDigestTest, IsSixteenHexadecimalDigits) {
  EXPECT_THAT(KeyDigest({"acme", "alice@example.com"}),
              MatchesRegex("[0-9a-f]{16}"));
}

// Known values: it names a record across versions and servers. They are the
// beginning of SHA-256 of "4:acme5:key-1", and of "0:0:".
TEST(KeyDigestTest, IsTheSameForEver) {
  EXPECT_EQ(KeyDigest({"acme", "key-1"}), "b538b60d49a8efe8");
  EXPECT_EQ(KeyDigest({"", ""}), "390feabc786e369e");
}

TEST(KeyDigestTest, IsOfBothParts) {
  EXPECT_NE(KeyDigest({"acme", "k"}), KeyDigest({"globex", "k"}));
  EXPECT_NE(KeyDigest({"acme", "k"}), KeyDigest({"acme", "l"}));
}

TEST(KeyDigestTest, PartsThatJoinAlikeDiffer) {
  EXPECT_NE(KeyDigest({"a:b", "c"}), KeyDigest({"a", "b:c"}));
  EXPECT_NE(KeyDigest({"a/", "b"}), KeyDigest({"a", "/b"}));
  EXPECT_NE(KeyDigest({"ab", ""}), KeyDigest({"a", "b"}));
  // As its own form joins them.
  EXPECT_NE(KeyDigest({"a", "1:b"}), KeyDigest({"a1:", "b"}));
  EXPECT_NE(KeyDigest({std::string("a\0", 2), "b"}), KeyDigest({"a", "b"}));
}

TEST(KeyDigestTest, RandomPairsOfSeparatorsDiffer) {
  const std::string letters = "a:/|1";
  std::mt19937 random(20250102);
  const auto random_text = [&random, &letters] {
    std::string text;
    for (auto left = random() % 7; left > 0; --left) {
      text += letters[random() % letters.size()];
    }
    return text;
  };
  std::map<std::string, RecordId> seen;
  for (int i = 0; i < 10'000; ++i) {
    const RecordId id = {random_text(), random_text()};
    const auto [entry, is_new] = seen.try_emplace(KeyDigest(id), id);
    EXPECT_EQ(entry->second, id);
  }
  EXPECT_GT(seen.size(), 5000u);
}

}  // namespace
}  // namespace dedupe
