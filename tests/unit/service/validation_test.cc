// The bounds of a call: each at its limit and one beyond, with the reason and
// the field that the caller is told.
#include "server/service/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/limits.h"
#include "server/service/reason.h"
#include "tests/unit/commands.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::dedupe::testing::IsOk;
using ::dedupe::testing::IsRefusal;
using ::dedupe::testing::ValidBegin;
using ::dedupe::testing::ValidComplete;
using ::dedupe::testing::ValidExtend;
using ::dedupe::testing::ValidLookup;
using ::dedupe::testing::ValidRelease;

constexpr absl::Duration kTick = absl::Nanoseconds(1);

// --- Texts -------------------------------------------------------------------

struct TextRules {
  const char* field;
  size_t bytes_max;
  // Unset: it may be empty.
  std::optional<Reason> empty;
  Reason too_long;
  Reason characters;
};

constexpr TextRules kClientId = {"client_id", 255, Reason::kClientIdEmpty,
                                 Reason::kClientIdTooLong,
                                 Reason::kClientIdCharacters};
constexpr TextRules kKey = {"key", 255, Reason::kKeyEmpty, Reason::kKeyTooLong,
                            Reason::kKeyCharacters};
constexpr TextRules kOperation = {"operation", 128, std::nullopt,
                                  Reason::kOperationTooLong,
                                  Reason::kOperationCharacters};
constexpr TextRules kAttemptId = {"attempt_id", 64, Reason::kAttemptIdEmpty,
                                  Reason::kAttemptIdTooLong,
                                  Reason::kAttemptIdCharacters};

struct TextCase {
  std::string call;
  TextRules rules;
  // Of a call that is valid but for this text.
  std::function<absl::Status(const std::string&)> validate;
};

// `field` says where the text goes in a command.
template <typename Command, typename Field>
TextCase MakeTextCase(const char* call, const TextRules& rules, Command valid,
                      Field field) {
  return {call, rules, [valid, field](const std::string& text) {
            Command command = valid;
            field(command) = text;
            return Validate(command);
          }};
}

// The fields that every call on a held record has.
template <typename Command>
void AddHoldingCases(const char* call, const Command& valid,
                     std::vector<TextCase>& cases) {
  cases.push_back(
      MakeTextCase(call, kClientId, valid,
                   [](Command& c) -> std::string& { return c.id.client_id; }));
  cases.push_back(MakeTextCase(
      call, kKey, valid, [](Command& c) -> std::string& { return c.id.key; }));
  cases.push_back(MakeTextCase(
      call, kAttemptId, valid,
      [](Command& c) -> std::string& { return c.holder.attempt_id; }));
}

std::vector<TextCase> TextCases() {
  std::vector<TextCase> cases = {
      MakeTextCase(
          "Begin", kClientId, ValidBegin(),
          [](BeginCommand& c) -> std::string& { return c.id.client_id; }),
      MakeTextCase("Begin", kKey, ValidBegin(),
                   [](BeginCommand& c) -> std::string& { return c.id.key; }),
      MakeTextCase("Begin", kOperation, ValidBegin(),
                   [](BeginCommand& c) -> std::string& { return c.operation; }),
      MakeTextCase(
          "Begin", kAttemptId, ValidBegin(),
          [](BeginCommand& c) -> std::string& { return c.attempt_id; }),
      MakeTextCase(
          "Lookup", kClientId, ValidLookup(),
          [](LookupCommand& c) -> std::string& { return c.id.client_id; }),
      MakeTextCase("Lookup", kKey, ValidLookup(),
                   [](LookupCommand& c) -> std::string& { return c.id.key; }),
  };
  AddHoldingCases("Complete", ValidComplete(), cases);
  AddHoldingCases("Extend", ValidExtend(), cases);
  AddHoldingCases("Release", ValidRelease(), cases);
  return cases;
}

class TextFieldTest : public ::testing::TestWithParam<TextCase> {};

TEST_P(TextFieldTest, LimitIsAccepted) {
  const auto& [call, rules, validate] = GetParam();
  EXPECT_THAT(validate(std::string(rules.bytes_max, 'a')), IsOk());
  EXPECT_THAT(validate("a"), IsOk());
}

TEST_P(TextFieldTest, OneByteMoreIsRefused) {
  const auto& [call, rules, validate] = GetParam();
  EXPECT_THAT(validate(std::string(rules.bytes_max + 1, 'a')),
              IsRefusal(rules.too_long, rules.field));
}

// U+00E9 is two bytes of UTF-8.
TEST_P(TextFieldTest, LengthIsCountedInBytes) {
  const auto& [call, rules, validate] = GetParam();
  std::string text;
  while (text.size() + 2 <= rules.bytes_max) text += "\xc3\xa9";
  EXPECT_THAT(validate(text), IsOk());
  EXPECT_THAT(validate(text + "\xc3\xa9"),
              IsRefusal(rules.too_long, rules.field));
}

TEST_P(TextFieldTest, EmptyIsRefusedUnlessOptional) {
  const auto& [call, rules, validate] = GetParam();
  if (rules.empty.has_value()) {
    EXPECT_THAT(validate(""), IsRefusal(*rules.empty, rules.field));
  } else {
    EXPECT_THAT(validate(""), IsOk());
  }
}

// NUL above all, which PostgreSQL cannot store and libpqxx cuts texts at.
TEST_P(TextFieldTest, ControlCharactersAreRefusedWhereverTheyStand) {
  const auto& [call, rules, validate] = GetParam();
  for (const std::string& character :
       {std::string(1, '\0'), std::string("\n"), std::string("\x1f"),
        std::string("\x7f"), std::string("\xc2\x80"),
        std::string("\xc2\x9f")}) {
    for (const std::string& text :
         {character + "pay", "pa" + character + "y", "pay" + character}) {
      EXPECT_THAT(validate(text), IsRefusal(rules.characters, rules.field))
          << ::testing::PrintToString(text);
    }
  }
}

// Spaces, signs that mean something elsewhere, both ways to write an accented
// letter, and characters whose bytes come close to control characters.
TEST_P(TextFieldTest, EverythingElseIsAccepted) {
  const auto& [call, rules, validate] = GetParam();
  for (const char* text :
       {"   ", " a ", "a/b", "a%2Fb", "a+b", "a:b", "'; --", "\"\\{},", "NULL",
        "\xc3\xa9", "e\xcc\x81", "\xc2\xa0", "\xe2\x80\xa8", "\xef\xbf\xbf",
        "\xf4\x8f\xbf\xbf"}) {
    EXPECT_THAT(validate(text), IsOk()) << ::testing::PrintToString(text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TextFieldTest, ::testing::ValuesIn(TextCases()),
                         [](const ::testing::TestParamInfo<TextCase>& tested) {
                           std::string name = tested.param.call;
                           for (const char* c = tested.param.rules.field;
                                *c != '\0'; ++c) {
                             if (*c != '_') name += *c;
                           }
                           return name;
                         });

// --- Control characters ------------------------------------------------------

std::string Utf8(uint32_t code_point) {
  const auto tail = [](uint32_t bits) {
    return static_cast<char>(0x80 | (bits & 0x3f));
  };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) {
    return {static_cast<char>(0xc0 | (code_point >> 6)), tail(code_point)};
  }
  if (code_point < 0x10000) {
    return {static_cast<char>(0xe0 | (code_point >> 12)), tail(code_point >> 6),
            tail(code_point)};
  }
  return {static_cast<char>(0xf0 | (code_point >> 18)), tail(code_point >> 12),
          tail(code_point >> 6), tail(code_point)};
}

TEST(HasControlCharacterTest, IsRightForEveryCharacterThereIs) {
  for (uint32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;  // Surrogates are no characters.
    const bool is_control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
    // Neighbours whose bytes could be mistaken for a part of it.
    const std::string text = absl::StrCat("\xc2\xa0", Utf8(c), "\xe2\x80\x80");
    ASSERT_EQ(HasControlCharacter(text), is_control) << "U+" << std::hex << c;
  }
}

TEST(HasControlCharacterTest, EmptyTextHasNone) {
  EXPECT_FALSE(HasControlCharacter(""));
}

// Not UTF-8, and so refused elsewhere; here nothing may be read past its end.
TEST(HasControlCharacterTest, TextMayEndWithinACharacter) {
  EXPECT_FALSE(HasControlCharacter("a\xc2"));
  EXPECT_FALSE(HasControlCharacter(absl::string_view("\xc2\x80", 1)));
}

// --- Begin -------------------------------------------------------------------

absl::Status ValidateFingerprint(const std::string& fingerprint) {
  BeginCommand command = ValidBegin();
  command.fingerprint = fingerprint;
  return Validate(command);
}

TEST(BeginValidationTest, FingerprintHasOneTo64Bytes) {
  EXPECT_THAT(ValidateFingerprint(""),
              IsRefusal(Reason::kFingerprintEmpty, "fingerprint"));
  EXPECT_THAT(ValidateFingerprint("x"), IsOk());
  EXPECT_THAT(ValidateFingerprint(std::string(64, 'x')), IsOk());
  EXPECT_THAT(ValidateFingerprint(std::string(65, 'x')),
              IsRefusal(Reason::kFingerprintTooLong, "fingerprint"));
}

TEST(BeginValidationTest, FingerprintMayBeAnyBytes) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_THAT(ValidateFingerprint(std::string(1, static_cast<char>(byte))),
                IsOk());
  }
}

absl::Status ValidateBeginLease(absl::Duration lease) {
  BeginCommand command = ValidBegin();
  command.lease = lease;
  return Validate(command);
}

absl::Status ValidateExtendLease(absl::Duration lease) {
  ExtendCommand command = ValidExtend();
  command.lease = lease;
  return Validate(command);
}

absl::Status ValidateTtl(absl::Duration ttl) {
  BeginCommand command = ValidBegin();
  command.ttl = ttl;
  return Validate(command);
}

absl::Status ValidateWaitOf(absl::Duration wait) { return ValidateWait(wait); }

struct DurationCase {
  const char* call;
  const char* field;
  Reason range;
  absl::Duration least;
  absl::Duration most;
  absl::Status (*validate)(absl::Duration);
};

class DurationTest : public ::testing::TestWithParam<DurationCase> {};

TEST_P(DurationTest, LimitsAreAccepted) {
  EXPECT_THAT(GetParam().validate(GetParam().least), IsOk());
  EXPECT_THAT(GetParam().validate(GetParam().most), IsOk());
}

TEST_P(DurationTest, OneNanosecondBeyondIsRefused) {
  const DurationCase& c = GetParam();
  EXPECT_THAT(c.validate(c.least - kTick), IsRefusal(c.range, c.field));
  EXPECT_THAT(c.validate(c.most + kTick), IsRefusal(c.range, c.field));
}

// Zero is not "not given", and nothing may wrap.
TEST_P(DurationTest, ZeroNegativeAndEndlessAreRefused) {
  const DurationCase& c = GetParam();
  for (const absl::Duration duration :
       {absl::ZeroDuration(), -kTick, -c.least, -c.most,
        absl::Seconds(int64_t{1} << 31), absl::Seconds((int64_t{1} << 32) + 5),
        absl::Seconds(std::numeric_limits<int64_t>::max()),
        absl::InfiniteDuration(), -absl::InfiniteDuration()}) {
    EXPECT_THAT(c.validate(duration), IsRefusal(c.range, c.field)) << duration;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DurationTest,
    ::testing::Values(DurationCase{"BeginLease", "lease", Reason::kLeaseRange,
                                   absl::Milliseconds(100), absl::Minutes(15),
                                   ValidateBeginLease},
                      DurationCase{"ExtendLease", "lease", Reason::kLeaseRange,
                                   absl::Milliseconds(100), absl::Minutes(15),
                                   ValidateExtendLease},
                      DurationCase{"BeginTtl", "ttl", Reason::kTtlRange,
                                   absl::Milliseconds(100),
                                   absl::Hours(24 * 31), ValidateTtl},
                      DurationCase{"BeginWait", "wait", Reason::kWaitRange,
                                   kTick, absl::Seconds(30), ValidateWaitOf}),
    [](const auto& tested) { return std::string(tested.param.call); });

TEST(DurationDefaultTest, UnsetIsAccepted) {
  BeginCommand begin = ValidBegin();
  begin.lease = std::nullopt;
  begin.ttl = std::nullopt;
  ExtendCommand extend = ValidExtend();
  extend.lease = std::nullopt;
  EXPECT_THAT(Validate(begin), IsOk());
  EXPECT_THAT(Validate(extend), IsOk());
  EXPECT_THAT(ValidateWait(std::nullopt), IsOk());
}

// --- Complete, Extend, Release -----------------------------------------------

template <typename Command>
void ExpectFenceIsChecked(Command command) {
  for (const int64_t fence :
       {int64_t{1}, std::numeric_limits<int64_t>::max()}) {
    command.holder.fence = fence;
    EXPECT_THAT(Validate(command), IsOk()) << fence;
  }
  for (const int64_t fence :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    command.holder.fence = fence;
    EXPECT_THAT(Validate(command), IsRefusal(Reason::kFenceRange, "fence"))
        << fence;
  }
}

TEST(FenceTest, IsGreaterThanZero) {
  ExpectFenceIsChecked(ValidComplete());
  ExpectFenceIsChecked(ValidExtend());
  ExpectFenceIsChecked(ValidRelease());
}

absl::Status ValidateHeaders(std::vector<Header> headers) {
  CompleteCommand command = ValidComplete();
  command.response.headers = std::move(headers);
  return Validate(command);
}

TEST(HeadersTest, NoneAndAnEmptyValueAreAccepted) {
  EXPECT_THAT(ValidateHeaders({}), IsOk());
  EXPECT_THAT(ValidateHeaders({{"n", ""}}), IsOk());
}

TEST(HeadersTest, MayBe64) {
  EXPECT_THAT(ValidateHeaders(std::vector<Header>(64, {"n", "v"})), IsOk());
  EXPECT_THAT(ValidateHeaders(std::vector<Header>(65, {"n", "v"})),
              IsRefusal(Reason::kHeadersTooMany, "response.headers"));
}

TEST(HeadersTest, NamesAndValuesTogetherMayHave16Kibibytes) {
  const std::string value(16 * 1024 - 5, 'v');
  EXPECT_THAT(ValidateHeaders({{"name", value}, {"n", ""}}), IsOk());
  EXPECT_THAT(ValidateHeaders({{"name", value}, {"nn", ""}}),
              IsRefusal(Reason::kHeadersTooLarge, "response.headers"));
  EXPECT_THAT(ValidateHeaders({{"name", value}, {"n", "v"}}),
              IsRefusal(Reason::kHeadersTooLarge, "response.headers"));
}

TEST(HeadersTest, WhichOneIsAtFaultIsSaid) {
  const Header good = {"n", "v"};
  EXPECT_THAT(ValidateHeaders({good, {"", "v"}}),
              IsRefusal(Reason::kHeaderNameEmpty, "response.headers[1].name"));
  EXPECT_THAT(
      ValidateHeaders({{"a\r\nb", "v"}, good}),
      IsRefusal(Reason::kHeaderNameCharacters, "response.headers[0].name"));
  EXPECT_THAT(
      ValidateHeaders({good, good, {"n", std::string("v\0", 2)}}),
      IsRefusal(Reason::kHeaderValueCharacters, "response.headers[2].value"));
  EXPECT_THAT(
      ValidateHeaders({{"n", "\xc2\x85"}}),
      IsRefusal(Reason::kHeaderValueCharacters, "response.headers[0].value"));
}

absl::Status ValidateBody(size_t bytes, bool omitted) {
  CompleteCommand command = ValidComplete();
  command.response.body = std::string(bytes, '\0');
  command.response.body_omitted = omitted;
  return Validate(command);
}

TEST(BodyTest, MayHave256Kibibytes) {
  EXPECT_THAT(ValidateBody(0, false), IsOk());
  EXPECT_THAT(ValidateBody(262144, false), IsOk());
  EXPECT_THAT(ValidateBody(262145, false),
              IsRefusal(Reason::kResponseTooLarge, "response.body"));
}

TEST(BodyTest, IsEmptyIfOmitted) {
  EXPECT_THAT(ValidateBody(0, true), IsOk());
  EXPECT_THAT(ValidateBody(1, true),
              IsRefusal(Reason::kBodyNotOmitted, "response.body"));
}

TEST(ResponseTest, AnyCodeWillDo) {
  for (const int32_t code : {0, -1, std::numeric_limits<int32_t>::min(),
                             std::numeric_limits<int32_t>::max()}) {
    CompleteCommand command = ValidComplete();
    command.response.code = code;
    EXPECT_THAT(Validate(command), IsOk());
  }
}

TEST(CheckpointTest, MayHave4Kibibytes) {
  ExtendCommand command = ValidExtend();
  command.checkpoint = "";
  EXPECT_THAT(Validate(command), IsOk());
  command.checkpoint = std::string(4096, '\0');
  EXPECT_THAT(Validate(command), IsOk());
  command.checkpoint = std::string(4097, 'x');
  EXPECT_THAT(Validate(command),
              IsRefusal(Reason::kCheckpointTooLarge, "checkpoint"));
}

// --- Order -------------------------------------------------------------------

// Mends one fault after another, and each time expects to be told of the next.
template <typename Command>
void ExpectOrder(
    Command broken,
    const std::vector<std::pair<Reason, std::function<void(Command&)>>>&
        faults) {
  for (const auto& [reason, mend] : faults) {
    EXPECT_THAT(Validate(broken), IsRefusal(reason));
    mend(broken);
  }
  EXPECT_THAT(Validate(broken), IsOk());
}

TEST(OrderTest, OfBeginIsThatOfItsFields) {
  BeginCommand broken;
  broken.operation = std::string(129, 'x');
  broken.lease = absl::ZeroDuration();
  broken.ttl = absl::ZeroDuration();
  ExpectOrder<BeginCommand>(
      broken,
      {{Reason::kClientIdEmpty, [](auto& c) { c.id.client_id = "acme"; }},
       {Reason::kKeyEmpty, [](auto& c) { c.id.key = "k"; }},
       {Reason::kOperationTooLong, [](auto& c) { c.operation = "x"; }},
       {Reason::kFingerprintEmpty, [](auto& c) { c.fingerprint = "f"; }},
       {Reason::kAttemptIdEmpty, [](auto& c) { c.attempt_id = "a"; }},
       {Reason::kLeaseRange, [](auto& c) { c.lease = absl::Seconds(1); }},
       {Reason::kTtlRange, [](auto& c) { c.ttl = absl::Seconds(1); }}});
}

TEST(OrderTest, OfCompleteIsThatOfItsFields) {
  CompleteCommand broken;
  broken.response.headers = std::vector<Header>(65, {"", ""});
  broken.response.body = std::string(kBodyBytesMax + 1, 'x');
  broken.response.body_omitted = true;
  ExpectOrder<CompleteCommand>(
      broken,
      {{Reason::kClientIdEmpty, [](auto& c) { c.id.client_id = "acme"; }},
       {Reason::kKeyEmpty, [](auto& c) { c.id.key = "k"; }},
       {Reason::kAttemptIdEmpty, [](auto& c) { c.holder.attempt_id = "a"; }},
       {Reason::kFenceRange, [](auto& c) { c.holder.fence = 1; }},
       {Reason::kHeadersTooMany, [](auto& c) { c.response.headers.resize(1); }},
       {Reason::kHeaderNameEmpty,
        [](auto& c) { c.response.headers[0].name = "n"; }},
       {Reason::kResponseTooLarge, [](auto& c) { c.response.body = "x"; }},
       {Reason::kBodyNotOmitted,
        [](auto& c) { c.response.body_omitted = false; }}});
}

TEST(OrderTest, OfExtendIsThatOfItsFields) {
  ExtendCommand broken;
  broken.lease = absl::ZeroDuration();
  broken.checkpoint = std::string(kCheckpointBytesMax + 1, 'x');
  ExpectOrder<ExtendCommand>(
      broken,
      {{Reason::kClientIdEmpty, [](auto& c) { c.id.client_id = "acme"; }},
       {Reason::kKeyEmpty, [](auto& c) { c.id.key = "k"; }},
       {Reason::kAttemptIdEmpty, [](auto& c) { c.holder.attempt_id = "a"; }},
       {Reason::kFenceRange, [](auto& c) { c.holder.fence = 1; }},
       {Reason::kLeaseRange, [](auto& c) { c.lease = std::nullopt; }},
       {Reason::kCheckpointTooLarge, [](auto& c) { c.checkpoint = ""; }}});
}

}  // namespace
}  // namespace dedupe
