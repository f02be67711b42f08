// What a service answers to its own client, and what dedupe keeps of it.
#ifndef DEDUPE_RESPONSE_H_
#define DEDUPE_RESPONSE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dedupe::client {

struct Header {
  std::string name;
  std::string value;

  friend bool operator==(const Header&, const Header&) = default;
};

// Kept and handed back byte for byte.
struct Response {
  // Of the service's choosing; the HTTP helpers take it for the HTTP status.
  int32_t code = 0;
  // Order and repetition are kept. Names are not empty; no control characters.
  std::vector<Header> headers = {};
  std::string body = {};
  // The body was too large to keep: it is empty in what is replayed.
  bool body_omitted = false;

  friend bool operator==(const Response&, const Response&) = default;
};

// What the server keeps; it refuses more (RESPONSE_TOO_LARGE and the like).
inline constexpr size_t kBodyBytesMax = 256 * 1024;
inline constexpr size_t kHeadersMax = 64;
// Names and values together.
inline constexpr size_t kHeadersBytesMax = 16 * 1024;

}  // namespace dedupe::client

#endif  // DEDUPE_RESPONSE_H_
