#include "dedupe/http.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "dedupe/key.h"
#include "dedupe/outcome.h"
#include "dedupe/response.h"

namespace dedupe::client {
namespace {

// --- Structured fields (RFC 8941) --------------------------------------------

bool IsPrintable(char byte) { return byte >= 0x20 && byte <= 0x7e; }

bool IsBareKeyByte(char byte) {
  return byte > 0x20 && byte <= 0x7e && !absl::StrContains("\"\\,;", byte);
}

bool IsLowerLetter(char byte) { return byte >= 'a' && byte <= 'z'; }

bool IsParameterNameByte(char byte) {
  return IsLowerLetter(byte) || (byte >= '0' && byte <= '9') ||
         absl::StrContains("_-.*", byte);
}

// Takes what satisfies the predicate from the front.
template <typename Predicate>
absl::string_view TakeWhile(absl::string_view& text, Predicate predicate) {
  size_t size = 0;
  while (size < text.size() && predicate(text[size])) ++size;
  const absl::string_view taken = text.substr(0, size);
  text.remove_prefix(size);
  return taken;
}

bool Take(absl::string_view& text, char byte) {
  if (text.empty() || text.front() != byte) return false;
  text.remove_prefix(1);
  return true;
}

// The string that text begins with, behind its opening quote.
KeyHeader TakeString(absl::string_view& text) {
  std::string string;
  while (!text.empty()) {
    if (Take(text, '"')) return string;
    const bool escaped = Take(text, '\\');
    if (text.empty()) break;
    const char byte = text.front();
    if (!IsPrintable(byte)) {
      return KeyMalformed{"the string holds more than printable ASCII"};
    }
    if (escaped && byte != '"' && byte != '\\') {
      return KeyMalformed{"a backslash stands before neither \" nor \\"};
    }
    string.push_back(byte);
    text.remove_prefix(1);
  }
  return KeyMalformed{"the string is not closed"};
}

bool TakeParameter(absl::string_view& text) {
  if (!Take(text, ';')) return false;
  TakeWhile(text, [](char byte) { return byte == ' '; });
  const absl::string_view name = TakeWhile(text, IsParameterNameByte);
  if (name.empty() || !(IsLowerLetter(name[0]) || name[0] == '*')) {
    return false;
  }
  if (!Take(text, '=')) return true;
  if (Take(text, '"')) {
    return std::holds_alternative<std::string>(TakeString(text));
  }
  // A number, token, byte sequence or boolean: which one does not matter, only
  // where it ends. A comma, above all, begins the value of another line, which
  // something on the way has joined to this one.
  return !TakeWhile(text, IsBareKeyByte).empty();
}

KeyHeader ReadQuoted(absl::string_view text) {
  KeyHeader key = TakeString(text);
  if (!std::holds_alternative<std::string>(key)) return key;
  while (!text.empty()) {
    if (!TakeParameter(text)) {
      return KeyMalformed{"something follows the string"};
    }
  }
  return key;
}

KeyHeader ReadBare(absl::string_view text) {
  if (!std::all_of(text.begin(), text.end(), IsBareKeyByte)) {
    return KeyMalformed{
        "without quotes, a key is visible ASCII without \" \\ , and ;"};
  }
  return std::string(text);
}

// --- Answers -----------------------------------------------------------------

constexpr char kTypePrefix[] = "urn:dedupe:problem:";

// Where nothing says how long it will take: the shortest that the header can
// say. Who comes too early is told again.
constexpr int64_t kRetrySeconds = 1;

Response OwnProblem(int status, absl::string_view name, absl::string_view title,
                    absl::string_view detail) {
  return Problem(status, absl::StrCat(kTypePrefix, name), title, detail);
}

Response WithRetryAfter(Response response, int64_t seconds) {
  response.headers.push_back({"Retry-After", absl::StrCat(seconds)});
  return response;
}

// What speaks of a body that is not there, besides Content-Length, which is
// never stored.
bool IsBodyHeader(absl::string_view name) {
  static constexpr const char* kNames[] = {
      "Content-Type",     "Content-Encoding",
      "Content-Language", "Content-Range",
      "Content-MD5",      "Content-Disposition",
      "Content-Digest",   "Repr-Digest",
      "Digest",           "ETag",
      "Last-Modified",    "Accept-Ranges",
      "Content-Location",
  };
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [name](const char* other) {
                       return absl::EqualsIgnoreCase(name, other);
                     });
}

template <typename Predicate>
void EraseHeaders(Response& response, Predicate predicate) {
  std::erase_if(response.headers, [predicate](const Header& header) {
    return predicate(header.name);
  });
}

// In the place of a body that was not kept.
Response WithABody(Response response) {
  if (response.body_omitted) {
    Response problem = OwnProblem(
        response.code, "body-omitted", "The answer's body was not kept",
        "The request was carried out earlier, with this status. The body of "
        "its answer was too large to be kept.");
    EraseHeaders(response, IsBodyHeader);
    response.headers.insert(response.headers.end(), problem.headers.begin(),
                            problem.headers.end());
    response.body = std::move(problem.body);
    response.body_omitted = false;
  }
  return response;
}

Response Replayed(Response response) {
  EraseHeaders(response, [](absl::string_view name) {
    return absl::EqualsIgnoreCase(name, kReplayedHeader);
  });
  response = WithABody(std::move(response));
  response.headers.push_back({kReplayedHeader, "true"});
  return response;
}

Response RepeatLater(absl::string_view name, absl::string_view title,
                     absl::string_view detail) {
  return WithRetryAfter(OwnProblem(503, name, title, detail), kRetrySeconds);
}

Response NotRun() {
  return RepeatLater("not-run", "The request was not carried out",
                     "Nothing was changed. Repeat it with the same "
                     "Idempotency-Key.");
}

// One call for each outcome: one that is missing does not compile.
struct Answer {
  HttpProfile profile;

  Response operator()(const Ran& ran) const { return WithABody(ran.response); }
  Response operator()(const NotRecorded& not_recorded) const {
    return WithABody(not_recorded.response);
  }
  Response operator()(const Replay& replay) const {
    return Replayed(replay.response);
  }
  Response operator()(const InProgress& in_progress) const {
    const int64_t seconds = absl::ToInt64Seconds(
        absl::Ceil(in_progress.retry_after, absl::Seconds(1)));
    return WithRetryAfter(
        OwnProblem(409, "in-progress", "The request is being processed",
                   "An earlier request with this Idempotency-Key has not been "
                   "answered yet. Repeat it later, with the same key."),
        std::max<int64_t>(seconds, 1));
  }
  Response operator()(const Mismatch& /*mismatch*/) const {
    return OwnProblem(
        profile == HttpProfile::kConflict409 ? 409 : 422, "mismatch",
        "The Idempotency-Key belongs to another request",
        "An earlier request with this Idempotency-Key was not the same. Send "
        "another request with a key of its own.");
  }
  Response operator()(const InDoubt& /*in_doubt*/) const {
    return OwnProblem(
        409, "in-doubt", "The request's outcome is in doubt",
        "An earlier request with this Idempotency-Key was cut off, and a "
        "person has to find out what it did. Do not send it with another key.");
  }
  Response operator()(const Freed& freed) const {
    if (freed.answer) return *freed.answer;
    return NotRun();
  }
  Response operator()(const Unknown& /*unknown*/) const {
    return RepeatLater("unknown", "The request's outcome is not known",
                       "It may have been carried out or not. Repeat it with "
                       "the same Idempotency-Key.");
  }
};

Response AnswerError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return OwnProblem(400, "refused", "The request was refused",
                        "The request cannot be carried out under this "
                        "Idempotency-Key. Nothing was changed.");
    case absl::StatusCode::kResourceExhausted:
      return RepeatLater("overloaded", "The service is overloaded",
                         "Nothing was changed. Repeat it with the same "
                         "Idempotency-Key.");
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return NotRun();
    default:
      return OwnProblem(500, "internal", "The service failed",
                        "The request was not carried out.");
  }
}

}  // namespace

KeyHeader ReadIdempotencyKey(absl::Span<const std::string> values) {
  if (values.empty()) return KeyMissing{};
  if (values.size() > 1) {
    return KeyMalformed{"the header is there more than once"};
  }
  // White space around a value is not part of it (RFC 9110, section 5.5).
  absl::string_view text = values.front();
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }

  KeyHeader header = Take(text, '"') ? ReadQuoted(text) : ReadBare(text);
  const auto* key = std::get_if<std::string>(&header);
  if (key == nullptr) return header;
  if (key->empty()) return KeyMalformed{"the key is empty"};
  if (key->size() > kKeyBytesMax) {
    return KeyMalformed{
        absl::StrCat("the key is longer than ", kKeyBytesMax, " bytes")};
  }
  return header;
}

absl::StatusOr<std::string> FormatIdempotencyKey(absl::string_view key) {
  if (key.empty() || key.size() > kKeyBytesMax ||
      !std::all_of(key.begin(), key.end(), IsPrintable)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an idempotency key in a header is 1 to ", kKeyBytesMax,
                     " bytes of printable ASCII"));
  }
  std::string value = "\"";
  for (const char byte : key) {
    if (byte == '"' || byte == '\\') value.push_back('\\');
    value.push_back(byte);
  }
  value.push_back('"');
  return value;
}

Response AnswerKeyMissing() {
  return OwnProblem(400, "key-missing", "The Idempotency-Key is missing",
                    "This operation requires an Idempotency-Key header.");
}

Response AnswerKeyMalformed(const KeyMalformed& malformed) {
  return OwnProblem(400, "key-malformed", "The Idempotency-Key is malformed",
                    absl::StrCat("The Idempotency-Key header cannot be read: ",
                                 malformed.why, "."));
}

bool IsFinal(int status, HttpProfile profile) {
  static constexpr int kNotFinal[] = {401, 403, 408, 409, 419, 425, 429};
  if (status >= 500 && status <= 599) return profile == HttpProfile::kStripe;
  return status >= 200 && status <= 499 &&
         !std::binary_search(std::begin(kNotFinal), std::end(kNotFinal),
                             status);
}

WorkResult Settle(Response answer, HttpProfile profile) {
  if (!IsFinal(answer.code, profile)) return NothingHappened{std::move(answer)};
  EraseHeaders(answer,
               [](absl::string_view name) { return !IsStoredHeader(name); });
  return Done{std::move(answer)};
}

bool IsStoredHeader(absl::string_view name) {
  static constexpr const char* kNotStored[] = {
      "Set-Cookie",
      "Set-Cookie2",
      "Authorization",
      "Proxy-Authorization",
      "Proxy-Authenticate",
      "WWW-Authenticate",
      "Authentication-Info",
      "Cookie",
      "Date",
      "Connection",
      "Keep-Alive",
      "Transfer-Encoding",
      "Trailer",
      "Upgrade",
      "Content-Length",
      kReplayedHeader,
  };
  return std::none_of(std::begin(kNotStored), std::end(kNotStored),
                      [name](const char* other) {
                        return absl::EqualsIgnoreCase(name, other);
                      });
}

Response ToHttp(const absl::StatusOr<RunOnceOutcome>& outcome,
                HttpProfile profile) {
  if (!outcome.ok()) return AnswerError(outcome.status().code());
  return std::visit(Answer{profile}, *outcome);
}

Response Problem(int status, absl::string_view type, absl::string_view title,
                 absl::string_view detail) {
  nlohmann::ordered_json body;
  body["type"] = std::string(type);
  body["title"] = std::string(title);
  body["status"] = status;
  body["detail"] = std::string(detail);
  Response response;
  response.code = status;
  response.headers = {{"Content-Type", "application/problem+json"}};
  // What is not UTF-8 would make it throw.
  response.body = body.dump(-1, ' ', false,
                            nlohmann::ordered_json::error_handler_t::replace);
  return response;
}

}  // namespace dedupe::client
