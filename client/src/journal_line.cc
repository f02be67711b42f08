#include "client/src/journal_line.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/src/digest.h"

namespace dedupe::client {
namespace {

constexpr size_t kLengthDigits = 8;
constexpr size_t kPrefixBytes = 2 * kLengthDigits;
constexpr size_t kChecksumDigits = 16;
// Two spaces and the end of the line.
constexpr size_t kFrameBytes = kPrefixBytes + kChecksumDigits + 3;

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

// Of as much of length and complement as is there.
bool LengthHolds(absl::string_view prefix) {
  for (size_t i = 0; i < prefix.size(); ++i) {
    const int digit = HexDigit(prefix[i]);
    if (digit < 0) return false;
    if (i < kLengthDigits) continue;
    if (digit + HexDigit(prefix[i - kLengthDigits]) != 15) return false;
  }
  return true;
}

// bytes: from the beginning of a line on. A whole line's worth or more, or all
// up to the end of the file.
Line ReadWritten(absl::string_view bytes, uint64_t number) {
  Line line;
  const absl::string_view prefix = bytes.substr(0, kPrefixBytes);
  if (!LengthHolds(prefix)) return line;
  if (prefix.size() < kPrefixBytes) {
    line.state = Line::State::kTorn;
    return line;
  }
  uint32_t length = 0;
  if (!absl::SimpleHexAtoi(prefix.substr(0, kLengthDigits), &length) ||
      length > kPayloadBytesMax) {
    return line;
  }
  line.size = LineBytes(length);
  if (bytes.size() < line.size) {
    line.state = Line::State::kTorn;
    return line;
  }
  line.payload = bytes.substr(kPrefixBytes + 1, length);
  if (bytes.substr(0, line.size) == FormatLine(number, line.payload)) {
    line.state = Line::State::kWhole;
  }
  return line;
}

}  // namespace

size_t LineBytes(size_t payload_bytes) { return kFrameBytes + payload_bytes; }

std::string FormatLine(uint64_t number, absl::string_view payload) {
  const auto length = static_cast<uint32_t>(payload.size());
  const std::string checksum =
      LowerHex(Sha256(absl::StrCat(number, " ", payload)));
  return absl::StrFormat("%08x%08x %s %s\n", length, ~length, payload,
                         checksum.substr(0, kChecksumDigits));
}

Line ReadLine(absl::string_view bytes, uint64_t number) {
  Line line = ReadWritten(bytes, number);
  if (line.state != Line::State::kDamaged ||
      bytes.size() > LineBytes(kPayloadBytesMax)) {
    return line;
  }
  const size_t written_bytes = bytes.find_last_not_of('\0') + 1;
  if (bytes.size() - written_bytes < 2) return line;
  const Line written = ReadWritten(bytes.substr(0, written_bytes), number);
  const bool fits = written.size == 0 || bytes.size() <= written.size;
  return written.state == Line::State::kTorn && fits ? written : line;
}

}  // namespace dedupe::client
