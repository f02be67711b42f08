// Fingerprints: what makes a request the same request. dedupe stores one with
// each key and answers `mismatch` when the key comes back with another.
//
// All are SHA-256 (32 bytes) over length-prefixed parts that begin with the
// scheme's name, so parts do not run into each other and schemes never share a
// digest. A part is its length in 8 bytes, greatest first, and its bytes. What
// a scheme gives for a request never changes; a changed scheme gets a new name.
// The golden digests of the tests hold both.
//
// Never fingerprint a serialised protobuf: its bytes differ between builds,
// languages and runs for the same message.
//
// Everything here is thread-safe.
#ifndef DEDUPE_FINGERPRINT_H_
#define DEDUPE_FINGERPRINT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dedupe::client {

// What is digested, byte for byte as received.
struct RequestParts {
  // Such as "POST /v1/charges".
  absl::string_view operation;
  // As sent. Absent and empty are different.
  std::optional<absl::string_view> content_type = {};
  absl::string_view body;
};

// The scheme "dedupe-raw-1", the default choice: one changed byte is another
// request. Right wherever the client repeats what it has sent, as it should.
// Parts: the scheme, operation, content_type unless it is absent, body.
std::string FingerprintRaw(const RequestParts& parts);

struct JsonFingerprintOptions {
  // JSON Pointers (RFC 6901), such as "/trace_id" or "/meta/sent_at", of
  // members that do not make it another request. A closed list: whatever it
  // does not name counts. At most 64. Part of the digest, in any order. An
  // element of an array is named by its number in the body.
  std::vector<std::string> excluded;
};

// The scheme "dedupe-json-1": the canonical form (see CanonicalJson) of the
// body, for clients that build the body anew for each try, in which the order
// of members and white space may differ. Parts: the scheme, operation, the
// canonical form without what is excluded, and each excluded pointer once, in
// the order of their bytes. Errors: as CanonicalJson, whatever is excluded;
// kInvalidArgument for an excluded pointer that is none, or is "" (everything),
// or for too many.
absl::StatusOr<std::string> FingerprintJson(
    absl::string_view operation, absl::string_view body,
    const JsonFingerprintOptions& options = {});

// RFC 8785 (JCS): members sorted, no white space, numbers as JavaScript writes
// them, so 1, 1.0 and 1e0 are the same. Strings are not normalised: "\u00e9" is
// the letter itself, but not "e" with an accent.
//
// Refused with kInvalidArgument, because two different requests would look the
// same, or readers differ in what they make of it: text that is not JSON or not
// UTF-8, a byte order mark, lone surrogates, a member named twice, a number out
// of a double's range (too near to zero as well), a number of 2^53 or more in
// size that would be written as another one, such as 9007199254740993 (send it
// as a string), nesting deeper than kJsonDepthMax. Smaller numbers are
// rounded to the nearest double, as RFC 8785 has it: if your service tells
// 0.1 from 0.10000000000000001, use FingerprintRaw.
absl::StatusOr<std::string> CanonicalJson(absl::string_view text);

inline constexpr size_t kJsonDepthMax = 128;

}  // namespace dedupe::client

#endif  // DEDUPE_FINGERPRINT_H_
