// CanonicalJson against random documents, each spelled in several ways, and
// against random damage. The seeds are fixed, so a failure comes again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "dedupe/fingerprint.h"

namespace dedupe::client {
namespace {

// Random numbers that are the same with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}

  size_t Below(size_t bound) { return generator_() % bound; }
  bool OneIn(size_t bound) { return Below(bound) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& items) {
    return items[Below(items.size())];
  }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[Below(i)]);
    }
  }

 private:
  std::mt19937_64 generator_;
};

struct Member;

// A value without a spelling.
struct Value {
  // 'n', 't', 'f', a digit for a number, '"', '[' or '{'.
  char kind = 'n';
  // Of a number: an integer divided by a power of ten.
  int64_t integer = 0;
  int places = 0;
  // Of a string: its letters in UTF-8, one by one, as they can be escaped.
  std::vector<char32_t> letters;
  std::vector<Value> elements;
  std::vector<Member> members;
};

struct Member {
  std::vector<char32_t> name;
  Value value;
};

const std::vector<char32_t>& Letters() {
  static const auto* const kLetters = new std::vector<char32_t>{
      U'a',          U'b',          U'z',         U'0',      U' ',
      U'"',          U'\\',         U'/',         U'\b',     U'\n',
      U'\x01',       U'\x1f',       U'\x7f',      U'\u0080', U'\u00e9',
      U'\u0301',     U'\u20ac',     U'\ud7ff',    U'\ue000', U'\uffff',
      U'\U00010000', U'\U0001F600', U'\U0010ffff'};
  return *kLetters;
}

std::vector<char32_t> RandomLetters(Dice& dice) {
  std::vector<char32_t> letters(dice.Below(4));
  for (char32_t& letter : letters) letter = dice.Of(Letters());
  return letters;
}

Value RandomValue(Dice& dice, int depth) {
  Value value;
  value.kind = "ntf00\"\"[{{"[dice.Below(depth > 0 ? 10 : 7)];
  if (value.kind == '0') {
    value.integer = static_cast<int64_t>(dice.Below(2'000'001)) - 1'000'000;
    value.places = static_cast<int>(dice.Below(10));
  } else if (value.kind == '"') {
    value.letters = RandomLetters(dice);
  } else if (value.kind == '[') {
    const size_t count = dice.Below(4);
    for (size_t i = 0; i < count; ++i) {
      value.elements.push_back(RandomValue(dice, depth - 1));
    }
  } else if (value.kind == '{') {
    const size_t count = dice.Below(4);
    for (size_t i = 0; i < count; ++i) {
      auto name = RandomLetters(dice);
      const bool used = std::any_of(
          value.members.begin(), value.members.end(),
          [&name](const Member& member) { return member.name == name; });
      if (used) continue;
      value.members.push_back({std::move(name), RandomValue(dice, depth - 1)});
    }
  }
  return value;
}

// --- Spelling ----------------------------------------------------------------

void AppendUtf8(char32_t letter, std::string& text) {
  const auto byte = [&text](char32_t bits) {
    text.push_back(static_cast<char>(static_cast<unsigned char>(bits)));
  };
  if (letter < 0x80) return byte(letter);
  if (letter < 0x800) {
    byte(0xc0 | letter >> 6);
  } else {
    if (letter < 0x10000) {
      byte(0xe0 | letter >> 12);
    } else {
      byte(0xf0 | letter >> 18);
      byte(0x80 | (letter >> 12 & 0x3f));
    }
    byte(0x80 | (letter >> 6 & 0x3f));
  }
  byte(0x80 | (letter & 0x3f));
}

void AppendEscape(Dice& dice, char32_t letter, std::string& text) {
  const auto unit = [&](char32_t bits) {
    absl::StrAppend(&text, dice.OneIn(2) ? absl::StrFormat("\\u%04x", bits)
                                         : absl::StrFormat("\\u%04X", bits));
  };
  if (letter < 0x10000) return unit(letter);
  unit(0xd800 + ((letter - 0x10000) >> 10));
  unit(0xdc00 + ((letter - 0x10000) & 0x3ff));
}

std::string SpellString(Dice& dice, const std::vector<char32_t>& letters) {
  std::string text = "\"";
  for (const char32_t letter : letters) {
    const bool must = letter < 0x20 || letter == U'"' || letter == U'\\';
    if (must || dice.OneIn(3)) {
      AppendEscape(dice, letter, text);
    } else {
      AppendUtf8(letter, text);
    }
  }
  return text + "\"";
}

// Zeros behind the point, and a power of ten that the exponent takes back.
std::string SpellNumber(Dice& dice, int64_t integer, int places) {
  const size_t zeros = dice.Below(4);
  std::string text = absl::StrCat(integer, std::string(dice.OneIn(2), '.'));
  if (text.back() == '.') {
    absl::StrAppend(&text, "0", std::string(zeros, '0'));
  } else if (integer != 0) {
    text.append(zeros, '0');
    places += static_cast<int>(zeros);
  }
  if (places == 0 && dice.OneIn(2)) return text;
  return absl::StrCat(text, dice.OneIn(2) ? "e" : "E", "-", places);
}

std::string Space(Dice& dice) {
  if (!dice.OneIn(3)) return "";
  return dice.Of<std::string>({" ", "\t", "\r\n", "  ", "\n"});
}

std::string Spell(Dice& dice, const Value& value) {
  switch (value.kind) {
    case 'n':
      return "null";
    case 't':
      return "true";
    case 'f':
      return "false";
    case '0':
      return SpellNumber(dice, value.integer, value.places);
    case '"':
      return SpellString(dice, value.letters);
    default:
      break;
  }
  std::vector<std::string> parts;
  for (const Value& element : value.elements) {
    parts.push_back(Spell(dice, element));
  }
  for (const auto& [name, member] : value.members) {
    parts.push_back(absl::StrCat(SpellString(dice, name), Space(dice), ":",
                                 Space(dice), Spell(dice, member)));
  }
  if (value.kind == '{') dice.Shuffle(parts);
  std::string text(1, value.kind);
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", Space(dice), parts[i],
                    Space(dice));
  }
  return text + (value.kind == '{' ? "}" : "]");
}

// --- Tests -------------------------------------------------------------------

constexpr uint64_t kSeed = 8785;

#ifdef __SANITIZE_THREAD__
// In one thread it has nothing to find, and takes fifty times as long.
constexpr int kDocuments = 5'000;
#else
constexpr int kDocuments = 100'000;
#endif

TEST(RandomJsonTest, EverySpellingHasOneCanonicalFormThatReadsTheSame) {
  Dice dice(kSeed);
  for (int i = 0; i < kDocuments; ++i) {
    const Value value = RandomValue(dice, 3);
    const std::string one = Space(dice) + Spell(dice, value) + Space(dice);
    const std::string other = Spell(dice, value);
    const auto canonical = CanonicalJson(one);
    ASSERT_TRUE(canonical.ok()) << one;
    ASSERT_EQ(CanonicalJson(other).value_or("refused"), *canonical)
        << one << "\n"
        << other;
    ASSERT_EQ(CanonicalJson(*canonical).value_or("refused"), *canonical) << one;
    // Another reader finds the same in it: nothing is lost.
    ASSERT_EQ(nlohmann::json::parse(*canonical), nlohmann::json::parse(one));
  }
}

std::string Damaged(Dice& dice, std::string text) {
  static constexpr char kBytes[] =
      "\0\x01 \t\"\\/{}[]:,-+.eE019atfnu\x7f\x80\xbf\xc0\xc3\xed\xef\xf0\xff";
  const size_t count = 1 + dice.Below(3);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = dice.Below(text.size() + 1);
    const char byte = kBytes[dice.Below(sizeof(kBytes) - 1)];
    switch (dice.Below(3)) {
      case 0:
        text.insert(at, 1, byte);
        break;
      case 1:
        text.erase(at, 1 + dice.Below(4));
        break;
      default:
        if (at < text.size()) text[at] = byte;
    }
  }
  return text;
}

TEST(RandomJsonTest, DamagedTextIsRefusedOrSound) {
  Dice dice(kSeed + 1);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < kDocuments; ++i) {
    const std::string text = Damaged(dice, Spell(dice, RandomValue(dice, 3)));
    const auto canonical = CanonicalJson(text);
    if (canonical.ok()) {
      ++accepted;
      ASSERT_TRUE(nlohmann::json::accept(text)) << text;
      ASSERT_EQ(CanonicalJson(*canonical).value_or("refused"), *canonical);
    } else {
      ++refused;
      ASSERT_EQ(canonical.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_GT(accepted, kDocuments / 100);
  EXPECT_GT(refused, kDocuments / 100);
}

TEST(RandomJsonTest, RandomBytesNeverCrashIt) {
  Dice dice(kSeed + 2);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(dice.Below(64), '\0');
    for (char& byte : text) byte = static_cast<char>(dice.Below(256));
    const auto canonical = CanonicalJson(text);
    if (!canonical.ok()) continue;
    ASSERT_TRUE(nlohmann::json::accept(text));
  }
}

}  // namespace
}  // namespace dedupe::client
