#include "client/src/canonical_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dedupe/fingerprint.h"

namespace dedupe::client {
namespace {

absl::Status NotJson() {
  return absl::InvalidArgumentError("the text is not JSON");
}

absl::Status OutOfRange() {
  return absl::InvalidArgumentError("a number is out of the range of a double");
}

// --- Numbers -----------------------------------------------------------------

// From here on not every integer is a double.
constexpr double kFirstInexact = 9007199254740992;  // 2^53
// Of a double in scientific notation: 17 digits, a point, e, a sign and three
// digits, rounded up.
constexpr size_t kNumberBytesMax = 32;

// digits * 10^exponent; no zeros lead or trail, and zero has no digits. So one
// number is one Decimal.
struct Decimal {
  std::string digits;
  int64_t exponent = 0;

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// Of a number as JSON writes it, without regard to its sign; nullopt if the
// exponent is beyond all measure.
std::optional<Decimal> ParseDecimal(absl::string_view literal) {
  Decimal decimal;
  const size_t exponent_at =
      std::min(literal.find_first_of("eE"), literal.size());
  bool in_fraction = false;
  for (const char byte : literal.substr(0, exponent_at)) {
    if (byte == '.') {
      in_fraction = true;
    } else if (byte != '-') {
      decimal.digits.push_back(byte);
      decimal.exponent -= in_fraction ? 1 : 0;
    }
  }
  decimal.digits.erase(0, decimal.digits.find_first_not_of('0'));
  if (decimal.digits.empty()) return Decimal{};

  if (exponent_at < literal.size()) {
    absl::string_view power = literal.substr(exponent_at + 1);
    if (absl::StartsWith(power, "+")) power.remove_prefix(1);
    int32_t exponent = 0;
    if (std::from_chars(power.begin(), power.end(), exponent).ec !=
        std::errc()) {
      return std::nullopt;
    }
    decimal.exponent += exponent;
  }
  const size_t significant = decimal.digits.find_last_not_of('0') + 1;
  decimal.exponent += static_cast<int64_t>(decimal.digits.size() - significant);
  decimal.digits.resize(significant);
  return decimal;
}

absl::StatusOr<std::string> CanonicalNumber(absl::string_view literal) {
  const std::optional<Decimal> decimal = ParseDecimal(literal);
  double number = 0;
  // Not strtod, which reads 1.5 as 1 where the locale has a decimal comma.
  const auto read = std::from_chars(literal.begin(), literal.end(), number);
  // What is too near to zero is refused along with what is too far: it would
  // be zero. Readers differ in whether they call that an error.
  if (!decimal ||
      (!decimal->digits.empty() && (read.ec != std::errc() || number == 0))) {
    return OutOfRange();
  }
  if (decimal->digits.empty()) return "0";
  std::string text = JavaScriptNumber(number);
  if (std::abs(number) >= kFirstInexact && ParseDecimal(text) != decimal) {
    return absl::InvalidArgumentError(
        "a number of 2^53 or more is another one as a double");
  }
  return text;
}

// --- Strings -----------------------------------------------------------------

// RFC 8785, section 3.2.2.2: what has a short escape gets that, other control
// characters the long one, and nothing else is escaped but quote and backslash.
void AppendString(absl::string_view string, std::string& text) {
  constexpr absl::string_view kEscaped = "\"\\\b\t\n\f\r";
  constexpr absl::string_view kLetters = "\"\\btnfr";
  text.push_back('"');
  for (const char byte : string) {
    const size_t at = kEscaped.find(byte);
    if (at != absl::string_view::npos) {
      text.push_back('\\');
      text.push_back(kLetters[at]);
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      absl::StrAppend(&text, "\\u", absl::Hex(byte, absl::kZeroPad4));
    } else {
      text.push_back(byte);
    }
  }
  text.push_back('"');
}

// RFC 8785 sorts names by their UTF-16 code units. Bytes of UTF-8 sort the
// same, except that what takes four bytes, and so is a pair of surrogates in
// UTF-16, comes before U+E000 to U+FFFF, whose first byte is EE or EF.
int Utf16Weight(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value == 0xee || value == 0xef ? value + 0x100 : value;
}

bool Utf16Less(absl::string_view left, absl::string_view right) {
  return std::lexicographical_compare(
      left.begin(), left.end(), right.begin(), right.end(),
      [](char a, char b) { return Utf16Weight(a) < Utf16Weight(b); });
}

// --- Structure ---------------------------------------------------------------

struct Member {
  std::string name;
  // Not set if excluded.
  std::optional<std::string> text;
};

absl::StatusOr<std::string> CanonicalObject(std::vector<Member> members) {
  std::sort(members.begin(), members.end(),
            [](const Member& left, const Member& right) {
              return Utf16Less(left.name, right.name);
            });
  const auto twice =
      std::adjacent_find(members.begin(), members.end(),
                         [](const Member& left, const Member& right) {
                           return left.name == right.name;
                         });
  if (twice != members.end()) {
    return absl::InvalidArgumentError("an object names a member twice");
  }
  std::string text = "{";
  for (const Member& member : members) {
    if (!member.text) continue;
    if (text.size() > 1) text.push_back(',');
    AppendString(member.name, text);
    absl::StrAppend(&text, ":", *member.text);
  }
  text.push_back('}');
  return text;
}

// Called by the parser as it reads. Each value becomes its canonical text,
// which goes to the array or object that it stands in.
class Canonicalizer : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Canonicalizer(absl::Span<const JsonPointer> excluded)
      : excluded_(excluded) {}

  // Once the parser has come to an end.
  absl::StatusOr<std::string> Result() && {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

  bool null() override { return Add("null"); }
  bool boolean(bool value) override { return Add(value ? "true" : "false"); }
  bool number_integer(int64_t value) override {
    return Add(CanonicalNumber(absl::StrCat(value)));
  }
  bool number_unsigned(uint64_t value) override {
    return Add(CanonicalNumber(absl::StrCat(value)));
  }
  // Not the double, which strtod has read under the locale, whose decimal point
  // the parser has put into the literal, too.
  bool number_float(double /*value*/, const std::string& literal) override {
    std::string portable = literal;
    const size_t point = portable.find_first_not_of("0123456789+-eE");
    if (point != std::string::npos) portable[point] = '.';
    return Add(CanonicalNumber(portable));
  }
  bool string(std::string& value) override {
    std::string text;
    AppendString(value, text);
    return Add(std::move(text));
  }
  // JSON has none.
  bool binary(nlohmann::json::binary_t& /*value*/) override {
    return Fail(NotJson());
  }

  bool start_object(size_t /*size*/) override { return Open(/*array=*/false); }
  bool key(std::string& name) override {
    open_.back().name = name;
    return true;
  }
  bool end_object() override {
    std::vector<Member> members = std::move(open_.back().members);
    open_.pop_back();
    return Add(CanonicalObject(std::move(members)));
  }

  bool start_array(size_t /*size*/) override { return Open(/*array=*/true); }
  bool end_array() override {
    std::string elements = std::move(open_.back().elements);
    open_.pop_back();
    return Add(absl::StrCat("[", elements, "]"));
  }

  bool parse_error(size_t /*position*/, const std::string& /*last_token*/,
                   const nlohmann::json::exception& error) override {
    return Fail(error.id == kParserOutOfRange ? OutOfRange() : NotJson());
  }

 private:
  // The parser's own name for a number that strtod finds to be infinite.
  static constexpr int kParserOutOfRange = 406;

  // An array or object whose end has not come.
  struct Container {
    bool is_array = false;
    // Of an array: the number of the next element, and the text so far.
    size_t index = 0;
    std::string elements;
    // Of an object: the name of the next value.
    std::string name;
    std::vector<Member> members;
  };

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }

  bool Open(bool array) {
    if (open_.size() == kJsonDepthMax) {
      return Fail(absl::InvalidArgumentError("the JSON is nested too deep"));
    }
    open_.emplace_back().is_array = array;
    return true;
  }

  bool Add(absl::StatusOr<std::string> text) {
    if (!text.ok()) return Fail(text.status());
    if (open_.empty()) {
      root_ = *std::move(text);
      return true;
    }
    const bool excluded = IsExcluded();
    Container& parent = open_.back();
    if (!parent.is_array) {
      parent.members.push_back({std::move(parent.name), std::nullopt});
      if (!excluded) parent.members.back().text = *std::move(text);
    } else if (!excluded) {
      absl::StrAppend(&parent.elements, parent.elements.empty() ? "" : ",",
                      *text);
    }
    ++parent.index;
    return true;
  }

  // Whether a pointer names the value that has just ended.
  bool IsExcluded() const {
    return std::any_of(
        excluded_.begin(), excluded_.end(), [this](const JsonPointer& pointer) {
          return std::equal(open_.begin(), open_.end(), pointer.tokens.begin(),
                            pointer.tokens.end(), IsAt);
        });
  }

  static bool IsAt(const Container& container, const std::string& token) {
    return container.is_array ? absl::StrCat(container.index) == token
                              : container.name == token;
  }

  const absl::Span<const JsonPointer> excluded_;
  absl::Status status_;
  std::vector<Container> open_;
  std::string root_;
};

// What the parser would pass over: it takes a NUL for the end of the text, and
// leaves out a byte order mark, which RFC 8259 forbids to send.
bool HasForeignBytes(absl::string_view text) {
  return absl::StrContains(text, '\0') ||
         absl::StartsWith(text, "\xef\xbb\xbf");
}

}  // namespace

absl::StatusOr<JsonPointer> ParseJsonPointer(absl::string_view text) {
  const auto refused = absl::InvalidArgumentError(
      "an excluded JSON Pointer is none, or names everything");
  if (!absl::StartsWith(text, "/")) return refused;
  JsonPointer pointer;
  for (const absl::string_view escaped : absl::StrSplit(text.substr(1), '/')) {
    // "~" stands only before 0 and 1, so taking those away takes all away.
    const std::string rest =
        absl::StrReplaceAll(escaped, {{"~0", ""}, {"~1", ""}});
    if (absl::StrContains(rest, '~')) return refused;
    pointer.tokens.push_back(
        absl::StrReplaceAll(escaped, {{"~0", "~"}, {"~1", "/"}}));
  }
  return pointer;
}

absl::StatusOr<std::string> CanonicalJsonWithout(
    absl::string_view text, absl::Span<const JsonPointer> excluded) {
  if (HasForeignBytes(text)) return NotJson();
  Canonicalizer canonicalizer(excluded);
  nlohmann::json::sax_parse(text.begin(), text.end(), &canonicalizer);
  return std::move(canonicalizer).Result();
}

absl::StatusOr<std::string> CanonicalJson(absl::string_view text) {
  return CanonicalJsonWithout(text, {});
}

// ECMA-262, Number::toString: the shortest digits that read back as the same
// double, of several the nearest, which is what to_chars gives too; and then
// where the point goes, in the words of the specification: k digits, and the
// point behind the n-th.
std::string JavaScriptNumber(double number) {
  if (number == 0) return "0";  // -0 as well.
  char buffer[kNumberBytesMax];
  const auto end =
      std::to_chars(std::begin(buffer), std::end(buffer), std::abs(number),
                    std::chars_format::scientific);
  const Decimal decimal =
      *ParseDecimal(std::string(std::begin(buffer), end.ptr));
  const absl::string_view digits = decimal.digits;
  const auto k = static_cast<int64_t>(digits.size());
  const int64_t n = k + decimal.exponent;
  const auto zeros = [](int64_t count) {
    return std::string(static_cast<size_t>(count), '0');
  };

  const absl::string_view sign = number < 0 ? "-" : "";
  if (k <= n && n <= 21) return absl::StrCat(sign, digits, zeros(n - k));
  if (0 < n && n <= 21) {
    const auto point = static_cast<size_t>(n);
    return absl::StrCat(sign, digits.substr(0, point), ".",
                        digits.substr(point));
  }
  if (-6 < n && n <= 0) return absl::StrCat(sign, "0.", zeros(-n), digits);
  return absl::StrCat(sign, digits.substr(0, 1), k > 1 ? "." : "",
                      digits.substr(1), "e", n > 0 ? "+" : "-",
                      std::abs(n - 1));
}

}  // namespace dedupe::client
