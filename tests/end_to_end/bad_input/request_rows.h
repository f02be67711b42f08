// The rows that are one request and one answer: how the request differs from a
// good one, and what is answered.
#ifndef DEDUPE_TESTS_END_TO_END_BAD_INPUT_REQUEST_ROWS_H_
#define DEDUPE_TESTS_END_TO_END_BAD_INPUT_REQUEST_ROWS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <variant>

#include "tests/end_to_end/bad_input/bad_input_test.h"

namespace dedupe::testing {

// A Begin as bytes, to whatever path.
struct Bytes {
  std::string path;
  std::string (*spoil)(const std::string& good);
};

// The good request is a Begin of a new key, or what the holder of another may
// send; its type says which.
using Spoil =
    std::variant<void (*)(v1::BeginRequest&), void (*)(v1::CompleteRequest&),
                 void (*)(v1::ExtendRequest&), void (*)(v1::ReleaseRequest&),
                 void (*)(v1::LookupRequest&), Bytes>;

struct RefusedRow {
  const char* name;
  Spoil spoil;
  // Of ErrorInfo and of BadRequest; empty for none.
  const char* reason;
  const char* field = "";
  grpc::StatusCode code = kInvalid;

  friend void PrintTo(const RefusedRow& self, std::ostream* out) {
    *out << self.name;
  }
};

struct AcceptedRow {
  const char* name;
  Spoil spoil;

  friend void PrintTo(const AcceptedRow& self, std::ostream* out) {
    *out << self.name;
  }
};

class RequestRowTest : public BadInputTest {
 protected:
  // What is sent, once spoilt.
  struct Request {
    std::string path;
    std::string bytes;
  };
  static Request Make(const Spoil& spoil, const Holding& held);
};

class RefusedRequestTest : public RequestRowTest,
                           public ::testing::WithParamInterface<RefusedRow> {};

class AcceptedRequestTest : public RequestRowTest,
                            public ::testing::WithParamInterface<AcceptedRow> {
};

// Its last part is the row's name.
inline constexpr auto kRowName = [](const auto& test) {
  return std::string(test.param.name);
};

// Whatever its two fields say.
inline google::protobuf::Duration DurationOf(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

// Protobuf's encoding of a field that is a text, bytes or a message.
inline std::string FieldBytes(int number, const std::string& value) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  size_t length = value.size();
  for (; length >= 128; length /= 128) {
    text += static_cast<char>(length % 128 | 128);
  }
  return text + static_cast<char>(length) + value;
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_BAD_INPUT_REQUEST_ROWS_H_
