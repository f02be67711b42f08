// Idempotency-Key over HTTP, after the IETF's draft-ietf-httpapi-idempotency-
// key-header: reading the header, and turning what RunOnce came to into an HTTP
// answer. Knows no HTTP library: an answer is a Response whose code is the
// status. Everything here is thread-safe and pure.
#ifndef DEDUPE_HTTP_H_
#define DEDUPE_HTTP_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dedupe/outcome.h"
#include "dedupe/response.h"

namespace dedupe::client {

inline constexpr char kIdempotencyKeyHeader[] = "Idempotency-Key";
// "true" on an answer that was stored by an earlier request. Not on the first
// answer under a key, also where reconciling has found it (Ran::reconciled).
inline constexpr char kReplayedHeader[] = "Idempotent-Replayed";

enum class HttpProfile {
  // The draft's: 422 for a key that belongs to another request.
  kIetf,
  // The same, but 409 for it.
  kConflict409,
  // The same as kIetf, but answers with 5xx are stored and replayed.
  kStripe,
};

struct KeyMissing {};
struct KeyMalformed {
  // Such as "the string is not closed"; never quotes the header.
  std::string why;
};
using KeyHeader = std::variant<std::string, KeyMissing, KeyMalformed>;

// The key, given all values of the header's lines in the request. It is a
// structured-field string (RFC 8941) such as "8e03978e-40d5-43dd-bc93", whose
// parameters are ignored, or the same bare, without quotes: visible ASCII
// except for the quote, backslash, comma and semicolon. Both spellings name the
// same key. Malformed: more than one line, an empty or over-long key
// (kKeyBytesMax), anything else.
KeyHeader ReadIdempotencyKey(absl::Span<const std::string> values);

// The header's value for this key, quoted. Errors: kInvalidArgument if the key
// is empty, too long, or not printable ASCII.
absl::StatusOr<std::string> FormatIdempotencyKey(absl::string_view key);

// 400, as application/problem+json (RFC 9457), like every answer below that is
// not the service's own. Their types begin with "urn:dedupe:problem:" and end
// with key-missing, key-malformed, in-progress, mismatch, in-doubt, not-run,
// unknown, refused, overloaded, internal or body-omitted.
Response AnswerKeyMissing();
Response AnswerKeyMalformed(const KeyMalformed& malformed);

// Whether an answer with this status is final, so that a repetition is handed
// it, rather than run again. 2xx, 3xx and 4xx are, without 401, 403, 408, 409,
// 419, 425 and 429; 5xx only under kStripe; 1xx never.
bool IsFinal(int status, HttpProfile profile);

// What the work of RunOnce should say, given its answer: Done if it is final,
// else NothingHappened. So only for work that answers with an error of those
// that are not final if it has changed nothing; where it may have, say Unknown.
// What is stored leaves out Set-Cookie, Authorization and the other headers of
// IsStoredHeader; so does what RunOnce then returns, so add yours of these to
// the answer of ToHttp.
WorkResult Settle(Response answer, HttpProfile profile);

// False for what belongs to one exchange or one person and must not be stored:
// Set-Cookie and Set-Cookie2, Authorization, Proxy-Authorization,
// WWW-Authenticate, Proxy-Authenticate, Authentication-Info, Cookie, Date,
// Connection, Keep-Alive, Upgrade, Trailer, Transfer-Encoding, Content-Length,
// Idempotent-Replayed.
bool IsStoredHeader(absl::string_view name);

// The answer:
//   Ran, NotRecorded  the response (found by reconciling without its body:
//                     as Replay, but for Idempotent-Replayed)
//   Replay            the response with Idempotent-Replayed: true; if its body
//                     was omitted, its status and headers, without those that
//                     describe the body, with a problem body
//   InProgress        409, Retry-After (whole seconds, rounded up)
//   Mismatch          422, or 409 under kConflict409
//   InDoubt           409 without Retry-After: a person has to look
//   Freed             what the work gave, else 503 with Retry-After
//   Unknown           503, Retry-After: repeat with the same key
//   an error          400 for kInvalidArgument; 503 with Retry-After for
//                     kResourceExhausted, kUnavailable and kCancelled; else 500
// No text of a status is shown: it may speak of the inside.
Response ToHttp(const absl::StatusOr<RunOnceOutcome>& outcome,
                HttpProfile profile);

// An RFC 9457 body with its content type. type is a URI reference.
Response Problem(int status, absl::string_view type, absl::string_view title,
                 absl::string_view detail);

}  // namespace dedupe::client

#endif  // DEDUPE_HTTP_H_
