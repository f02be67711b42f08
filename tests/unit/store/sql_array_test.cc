// Arrays as PostgreSQL reads them: what is text stays text, whatever it holds.
#include "server/store/sql_array.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <pqxx/array>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace dedupe {
namespace {

TEST(SqlArrayTest, EmptyIsTwoBraces) { EXPECT_EQ(SqlArray().Take(), "{}"); }

TEST(SqlArrayTest, ElementsAreSeparatedByCommas) {
  SqlArray array;
  array.AppendText("a");
  array.AppendNull();
  array.AppendText("");
  EXPECT_EQ(std::move(array).Take(), R"({"a",NULL,""})");
}

TEST(SqlArrayTest, EmptyTextIsNotNull) {
  SqlArray array;
  array.AppendText("");
  EXPECT_EQ(std::move(array).Take(), R"({""})");
}

// Unquoted it would be.
TEST(SqlArrayTest, TheTextNullIsNotNull) {
  SqlArray array;
  array.AppendText("NULL");
  EXPECT_EQ(std::move(array).Take(), R"({"NULL"})");
}

TEST(SqlArrayTest, QuotesAndBackslashesAreEscaped) {
  SqlArray array;
  array.AppendText(R"(a"b\c)");
  EXPECT_EQ(std::move(array).Take(), R"({"a\"b\\c"})");
}

TEST(SqlArrayTest, IntegersReachBothEnds) {
  SqlArray array;
  array.AppendInteger(std::numeric_limits<int64_t>::min());
  array.AppendInteger(0);
  array.AppendInteger(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(std::move(array).Take(),
            "{-9223372036854775808,0,9223372036854775807}");
}

TEST(SqlArrayTest, BooleansAreLetters) {
  SqlArray array;
  array.AppendBoolean(true);
  array.AppendBoolean(false);
  EXPECT_EQ(std::move(array).Take(), "{t,f}");
}

TEST(SqlArrayTest, BytesAreHexadecimal) {
  SqlArray array;
  array.AppendBytes("");
  array.AppendBytes(std::string("\x00\x0f\xf0\xff", 4));
  EXPECT_EQ(std::move(array).Take(), R"({"\\x","\\x000ff0ff"})");
}

TEST(SqlArrayTest, EveryByteHasItsTwoDigits) {
  std::string bytes;
  std::string digits;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += static_cast<char>(byte);
    digits += "0123456789abcdef"[byte / 16];
    digits += "0123456789abcdef"[byte % 16];
  }
  SqlArray array;
  array.AppendBytes(bytes);
  EXPECT_EQ(std::move(array).Take(), "{\"\\\\x" + digits + "\"}");
}

// --- Read back by libpqxx's own reader ---------------------------------------

using Elements = std::vector<std::optional<std::string>>;

std::string Write(const Elements& elements) {
  SqlArray array;
  for (const auto& element : elements) {
    if (element.has_value()) {
      array.AppendText(*element);
    } else {
      array.AppendNull();
    }
  }
  return std::move(array).Take();
}

Elements Read(const std::string& literal) {
  using Juncture = pqxx::array_parser::juncture;
  pqxx::array_parser parser(literal.c_str());
  Elements elements;
  while (true) {
    auto [juncture, value] = parser.get_next();
    if (juncture == Juncture::done) return elements;
    if (juncture == Juncture::null_value) elements.emplace_back();
    if (juncture == Juncture::string_value) {
      elements.emplace_back(std::move(value));
    }
  }
}

TEST(SqlArrayTest, WhatTriesToBreakOutIsReadBackAsItWas) {
  const Elements elements = {"\"",
                             "\\",
                             "\\\"",
                             "\"}",
                             "{\"a\"}",
                             ",",
                             "a,b",
                             " ",
                             " a ",
                             "'; DROP",
                             "\\x00",
                             "NULL",
                             "null",
                             std::nullopt,
                             "",
                             "\xc3\xa9",
                             "\xf0\x9f\x92\xb3",
                             "\\\\\"\\"};
  EXPECT_EQ(Read(Write(elements)), elements);
}

TEST(SqlArrayTest, RandomTextIsReadBackAsItWas) {
  constexpr char kLetters[] = "a\"\\{}, '\n\tN\xc3\xa9";
  std::mt19937 random(20250101);
  for (int round = 0; round < 2000; ++round) {
    Elements elements(random() % 6);
    for (auto& element : elements) {
      if (random() % 8 == 0) continue;
      element.emplace();
      for (auto left = random() % 12; left > 0; --left) {
        *element += kLetters[random() % (sizeof(kLetters) - 1)];
      }
    }
    const std::string literal = Write(elements);
    ASSERT_EQ(Read(literal), elements) << literal;
  }
}

}  // namespace
}  // namespace dedupe
