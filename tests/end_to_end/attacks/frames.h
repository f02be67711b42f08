// Frames of HTTP/2 as bytes, for attackers that send thousands of them on one
// connection.
#ifndef DEDUPE_TESTS_END_TO_END_ATTACKS_FRAMES_H_
#define DEDUPE_TESTS_END_TO_END_ATTACKS_FRAMES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/end_to_end/http2_peer.h"

namespace dedupe::testing {

inline constexpr uint8_t kHeadersFrame = 1;
inline constexpr uint8_t kContinuationFrame = 9;
inline constexpr uint8_t kEndHeadersFlag = 4;

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  absl::string_view payload);

// What a connection begins with, and how many bytes of DATA may come on each
// of its calls, and on all of them.
struct Windows {
  uint32_t call = 65535;
  uint32_t connection = 65535;
};
std::string Preface(const Windows& windows = {});
std::string SettingsAcknowledgement();

// At most 16 KiB each.
std::string DataFrame(uint32_t stream, absl::string_view data, EndStream end);
std::string ResetFrame(uint32_t stream);

// A literal header that no table remembers.
std::string LiteralHeader(absl::string_view name, absl::string_view value);

// The headers of the same call again and again, on one connection: spelled out
// the first time, and then a byte each, so that sending them costs little.
class CallHeaders {
 public:
  explicit CallHeaders(
      const std::string& path,
      const std::vector<std::pair<std::string, std::string>>& more = {});

  // HEADERS of that stream.
  std::string Next(uint32_t stream);

 private:
  std::vector<std::pair<std::string, std::string>> headers_;
  bool spelled_out_ = false;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_ATTACKS_FRAMES_H_
