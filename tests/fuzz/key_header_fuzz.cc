// client/include/dedupe/http.h and key.h: the Idempotency-Key header, and an
// answer whose headers come from elsewhere. The first byte of an input chooses
// the outcome and the profile; each line of the rest is the value of one header
// line, and a NAME:VALUE of the answer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dedupe/http.h"
#include "dedupe/key.h"
#include "tests/fuzz/check.h"

namespace dedupe::client {
namespace {

using ::dedupe::testing::Check;

void ReadKey(const std::vector<std::string>& values) {
  const KeyHeader header = ReadIdempotencyKey(values);
  if (std::holds_alternative<KeyMissing>(header)) {
    Check(values.empty(), "only an absent header is missing");
    return;
  }
  if (const auto* malformed = std::get_if<KeyMalformed>(&header)) {
    const Response answer = AnswerKeyMalformed(*malformed);
    Check(answer.code == 400 && nlohmann::json::accept(answer.body),
          "a malformed key is answered");
    return;
  }
  const auto& key = std::get<std::string>(header);
  Check(values.size() == 1, "a key comes from one line");
  Check(!key.empty() && key.size() <= kKeyBytesMax, "a key has its length");
  Check(std::all_of(key.begin(), key.end(),
                    [](char byte) { return byte >= ' ' && byte <= '~'; }),
        "a key is printable ASCII");
  const auto formatted = FormatIdempotencyKey(key);
  Check(formatted.ok(), "a key that was read can be written");
  const KeyHeader again = ReadIdempotencyKey(std::vector{*formatted});
  Check(std::holds_alternative<std::string>(again) &&
            std::get<std::string>(again) == key,
        "what was written is read back");
}

// Any text that may be a key at all, not only what the header has given.
void WriteKey(const std::string& key) {
  const auto formatted = FormatIdempotencyKey(key);
  if (!formatted.ok()) return;
  const KeyHeader header = ReadIdempotencyKey(std::vector{*formatted});
  Check(std::holds_alternative<std::string>(header) &&
            std::get<std::string>(header) == key,
        "what was written is read back");
}

void DeriveKey(const std::string& text) {
  const auto key = DownstreamKey(text, text, text, "charge");
  Check(key.ok() == (text.size() >= 16), "a secret has 16 bytes");
  Check(!key.ok() || (key->size() == 36 && (*key)[14] == '8'),
        "a derived key is a UUIDv8");
}

// Not of the input, but part of the unit.
void MintKeys() {
  WriteKey(NewKey());
  Check(NewAttemptId() != NewAttemptId(), "each try has a name of its own");
}

Response MakeAnswer(uint8_t selector, const std::vector<std::string>& lines) {
  Response answer{.code = 100 + 2 * selector};
  for (const std::string& line : lines) {
    std::pair<std::string, std::string> header =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    answer.headers.push_back({header.first, header.second});
  }
  answer.body_omitted = selector % 2 == 0;
  return answer;
}

absl::StatusOr<RunOnceOutcome> MakeOutcome(uint8_t selector,
                                           const Response& answer) {
  // Not by the same digit as the outcome, or some never meet.
  const auto code = static_cast<absl::StatusCode>(1 + selector / 10 % 16);
  Ran ran;
  ran.response = answer;
  Replay replay;
  replay.response = answer;
  InProgress in_progress;
  in_progress.retry_after = absl::Milliseconds(selector);
  NotRecorded not_recorded;
  not_recorded.response = answer;
  const absl::StatusOr<RunOnceOutcome> outcomes[] = {
      ran,
      replay,
      in_progress,
      Mismatch{},
      InDoubt{},
      Freed{},
      Freed{.answer = answer},
      not_recorded,
      Unknown{},
      absl::Status(code, "the inside"),
  };
  return outcomes[selector % std::size(outcomes)];
}

// In both directions, nothing that belongs to one exchange alone gets by.
void AnswerOverHttp(uint8_t selector, const std::vector<std::string>& lines) {
  constexpr HttpProfile kProfiles[] = {
      HttpProfile::kIetf, HttpProfile::kConflict409, HttpProfile::kStripe};
  const HttpProfile profile = kProfiles[selector % std::size(kProfiles)];
  const Response answer = MakeAnswer(selector, lines);

  const WorkResult settled = Settle(answer, profile);
  const auto* done = std::get_if<Done>(&settled);
  Check((done != nullptr) == IsFinal(answer.code, profile),
        "what is final is stored");
  if (done != nullptr) {
    for (const Header& header : done->response.headers) {
      Check(IsStoredHeader(header.name), "no header of one exchange is stored");
      Check(!absl::EqualsIgnoreCase(header.name, "set-cookie"),
            "no cookie is stored");
    }
  }
  const auto outcome = MakeOutcome(selector, answer);
  const Response sent = ToHttp(outcome, profile);
  // What the work gives beside the record goes through as it is.
  const bool passes = outcome.ok() && std::holds_alternative<Freed>(*outcome);
  Check(passes || !sent.body_omitted, "over HTTP every answer has its body");
  Check(!absl::StrContains(sent.body, "the inside"), "no status is shown");
}

}  // namespace
}  // namespace dedupe::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dedupe::client;  // NOLINT(google-build-using-namespace)
  static const bool kMinted = (MintKeys(), true);
  static_cast<void>(kMinted);
  ReadKey({});
  AnswerKeyMissing();
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  ReadKey(lines);
  ReadKey({lines.front()});
  WriteKey(lines.front());
  DeriveKey(lines.front());
  AnswerOverHttp(data[0], lines);
  return 0;
}
