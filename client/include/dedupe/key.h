// Keys and attempt ids.
#ifndef DEDUPE_KEY_H_
#define DEDUPE_KEY_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dedupe::client {

// Bytes of UTF-8. The server refuses longer ones.
inline constexpr size_t kClientIdBytesMax = 255;
inline constexpr size_t kKeyBytesMax = 255;
inline constexpr size_t kAttemptIdBytesMax = 64;

// A random UUIDv4 (RFC 9562) in lower case, 36 characters, from the kernel's
// random source: processes started at one instant, and the two sides of a
// fork, get different ones. Ends the program where the kernel has no random
// source, because no key is better than a guessable one. Thread-safe.
//
// An idempotency key is minted once for each intent, when the intent arises and
// before anything is sent, and kept (see journal.h) until the answer is in.
// Never make one from what the request says: two equal requests may be two
// intents, and a changed amount is a new one.
std::string NewKey();

// The same, for the name of one try of the work (see client.h). Never kept,
// never shared: a restarted process mints a new one.
std::string NewAttemptId();

// A key for something that the work asks of another service, such as a payment
// provider, that takes idempotency keys itself: HMAC-SHA256 of (client_id, key,
// label) under the caller's own secret, as a UUIDv8 (RFC 9562). The same
// arguments give the same key in every process and in every attempt, so a
// takeover repeats the downstream request instead of making a second one;
// without the secret, nobody can tell it from the upstream key. What is
// digested are parts, as in fingerprint.h, behind the scheme
// "dedupe-downstream-1".
//
// label: what is asked for, such as "charge" or "mail receipt"; one for each
// downstream request of the work. Errors: kInvalidArgument if the secret is
// shorter than 16 bytes. Thread-safe.
absl::StatusOr<std::string> DownstreamKey(absl::string_view secret,
                                          absl::string_view client_id,
                                          absl::string_view key,
                                          absl::string_view label);

}  // namespace dedupe::client

#endif  // DEDUPE_KEY_H_
