#include "tests/end_to_end/attacks/frames.h"

#include "absl/strings/str_cat.h"

namespace dedupe::testing {
namespace {

constexpr uint8_t kData = 0;
constexpr uint8_t kResetStream = 3;
constexpr uint8_t kSettings = 4;
constexpr uint8_t kWindowUpdate = 8;
constexpr uint8_t kEndStreamFlag = 1;
constexpr uint8_t kAcknowledgementFlag = 1;
constexpr uint16_t kInitialWindowSize = 4;
constexpr uint32_t kFirstWindow = 65535;
// The error code of a call that nobody wants any more.
constexpr uint32_t kCancel = 8;
// Where the table that grows begins.
constexpr size_t kDynamicTable = 62;

std::string BigEndian(uint32_t number, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(number >> shift & 0xff);
  }
  return text;
}

// HPACK's, without Huffman coding.
std::string Text(absl::string_view text) {
  std::string length;
  size_t rest = text.size();
  if (rest < 127) return absl::StrCat(std::string(1, char(rest)), text);
  length += 127;
  for (rest -= 127; rest >= 128; rest /= 128) length += char(rest % 128 | 128);
  length += char(rest);
  return absl::StrCat(length, text);
}

}  // namespace

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  absl::string_view payload) {
  return absl::StrCat(BigEndian(static_cast<uint32_t>(payload.size()), 3),
                      BigEndian(type, 1), BigEndian(flags, 1),
                      BigEndian(stream, 4), payload);
}

std::string Preface(const Windows& windows) {
  std::string bytes = absl::StrCat(
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      Frame(kSettings, 0, 0,
            BigEndian(kInitialWindowSize, 2) + BigEndian(windows.call, 4)));
  if (windows.connection > kFirstWindow) {
    bytes += Frame(kWindowUpdate, 0, 0,
                   BigEndian(windows.connection - kFirstWindow, 4));
  }
  return bytes;
}

std::string SettingsAcknowledgement() {
  return Frame(kSettings, kAcknowledgementFlag, 0, "");
}

std::string DataFrame(uint32_t stream, absl::string_view data, EndStream end) {
  return Frame(kData, end == EndStream::kYes ? kEndStreamFlag : uint8_t{0},
               stream, data);
}

std::string ResetFrame(uint32_t stream) {
  return Frame(kResetStream, 0, stream, BigEndian(kCancel, 4));
}

std::string LiteralHeader(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'), Text(name), Text(value));
}

CallHeaders::CallHeaders(
    const std::string& path,
    const std::vector<std::pair<std::string, std::string>>& more)
    : headers_({{":method", "POST"},
                {":scheme", "http"},
                {":path", path},
                {":authority", "localhost"},
                {"te", "trailers"},
                {"content-type", "application/grpc"}}) {
  headers_.insert(headers_.end(), more.begin(), more.end());
}

std::string CallHeaders::Next(uint32_t stream) {
  std::string block;
  for (size_t i = 0; i < headers_.size(); ++i) {
    if (spelled_out_) {
      block +=
          static_cast<char>(0x80 | (kDynamicTable + headers_.size() - 1 - i));
    } else {
      absl::StrAppend(&block, "\x40", Text(headers_[i].first),
                      Text(headers_[i].second));
    }
  }
  spelled_out_ = true;
  return Frame(kHeadersFrame, kEndHeadersFlag, stream, block);
}

}  // namespace dedupe::testing
