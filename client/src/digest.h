// SHA-256 and what is made of it: the only digest that this library knows.
// Everything here is thread-safe. Where OpenSSL has no SHA-256, the functions
// end the program: a key or fingerprint made otherwise would be a wrong one.
#ifndef DEDUPE_CLIENT_SRC_DIGEST_H_
#define DEDUPE_CLIENT_SRC_DIGEST_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace dedupe::client {

inline constexpr size_t kSha256Bytes = 32;

// 32 bytes, not hex.
std::string Sha256(absl::string_view data);
std::string HmacSha256(absl::string_view secret, absl::string_view data);

// Two digits for each byte, in lower case.
std::string LowerHex(absl::string_view bytes);

// Text to digest, made of parts, each behind its length in 8 bytes, greatest
// first: another way of cutting it into parts is another text.
class PartWriter {
 public:
  PartWriter& Add(absl::string_view part);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_DIGEST_H_
