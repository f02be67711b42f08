// How a record of the journal's file is written: one line of text.
//
//   line   = length complement ' ' payload ' ' checksum '\n'
//   length = 8 hex digits, the payload's bytes; complement = its 8 digits with
//            every bit turned, so that a wrong length is seen before it is used
//   checksum = 16 hex digits: of SHA-256, over the record's number in the file
//            (decimal, from 0), a space and the payload. The number makes a
//            line that is lost, doubled or moved an error.
//
// All digits are lower case. Record 0 is {"journal":"dedupe","version":1}, in
// this framing in every version to come.
//
// An end is torn if it is less than one whole line, or if it is no longer than
// one line and ends in two or more NUL bytes (the size of a file may reach the
// disk before its content does). Anything else that is not a whole line is
// damage: one changed byte never makes a torn end.
#ifndef DEDUPE_CLIENT_SRC_JOURNAL_LINE_H_
#define DEDUPE_CLIENT_SRC_JOURNAL_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dedupe::client {

// Nothing that we write comes near it. A file that states more is damaged.
inline constexpr size_t kPayloadBytesMax = 4096;

struct Line {
  enum class State { kWhole, kTorn, kDamaged };
  State state = State::kDamaged;
  // Of a whole line.
  absl::string_view payload;
  // As the beginning of the line states it; 0 if too little of it is there.
  size_t size = 0;
};

// Of the line of such a payload.
size_t LineBytes(size_t payload_bytes);

// The record of that number. The payload is text without NUL and end of line,
// up to kPayloadBytesMax.
std::string FormatLine(uint64_t number, absl::string_view payload);

// Reads the record of that number from the beginning of the bytes, which are
// more than LineBytes(kPayloadBytesMax), or else all up to the end of the file.
Line ReadLine(absl::string_view bytes, uint64_t number);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_JOURNAL_LINE_H_
