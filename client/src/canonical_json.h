// The parts of CanonicalJson (see fingerprint.h) that it shares with
// FingerprintJson. Everything here is thread-safe, and the same under every
// locale.
#ifndef DEDUPE_CLIENT_SRC_CANONICAL_JSON_H_
#define DEDUPE_CLIENT_SRC_CANONICAL_JSON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dedupe::client {

// A JSON Pointer (RFC 6901) by its reference tokens, unescaped. It has at least
// one: the pointer to everything is refused.
struct JsonPointer {
  std::vector<std::string> tokens;
};

// Errors: kInvalidArgument if the text is no JSON Pointer, or "".
absl::StatusOr<JsonPointer> ParseJsonPointer(absl::string_view text);

// As CanonicalJson, without what the pointers name: members, and elements of
// arrays, as numbered in the text. What they name must be sound all the same.
absl::StatusOr<std::string> CanonicalJsonWithout(
    absl::string_view text, absl::Span<const JsonPointer> excluded);

// As JavaScript's Number.prototype.toString() writes it. The number is finite.
std::string JavaScriptNumber(double number);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_CANONICAL_JSON_H_
