// Rows about the bytes of a message, and about what no method is called.
#include <gtest/gtest.h>

#include <string>

#include "tests/end_to_end/bad_input/request_rows.h"

namespace dedupe::testing {
namespace {

constexpr auto kTooLarge = grpc::StatusCode::RESOURCE_EXHAUSTED;
constexpr auto kUnimplemented = grpc::StatusCode::UNIMPLEMENTED;
constexpr size_t kMessageMost = 1 << 20;

const std::string kBegin = MethodPath("Begin");

std::string AsIs(const std::string& good) { return good; }

// An unknown field makes up the size: its tag and length take four bytes.
std::string UpTo(size_t bytes, const std::string& good) {
  return good + FieldBytes(15, std::string(bytes - good.size() - 4, 'x'));
}

INSTANTIATE_TEST_SUITE_P(
    Messages, RefusedRequestTest,
    ::testing::Values(
        // Not INTERNAL, which gRPC itself would say and clients would retry.
        RefusedRow{"B04KeyOverlong",
                   Bytes{kBegin,
                         [](const std::string& good) {
                           return good + FieldBytes(2, "\xc0\xaf");
                         }},
                   "MESSAGE_MALFORMED"},
        RefusedRow{"B04KeyLoneSurrogate",
                   Bytes{kBegin,
                         [](const std::string& good) {
                           return good + FieldBytes(2, "\xed\xa0\x80");
                         }},
                   "MESSAGE_MALFORMED"},
        RefusedRow{"B28MessageAboveMost",
                   Bytes{kBegin,
                         [](const std::string& good) {
                           return UpTo(kMessageMost + 1, good);
                         }},
                   "", "", kTooLarge},
        RefusedRow{
            "B31MessageEmpty",
            Bytes{kBegin, [](const std::string&) { return std::string(); }},
            "CLIENT_ID_EMPTY", "client_id"},
        RefusedRow{"B45Truncated",
                   Bytes{kBegin,
                         [](const std::string& good) {
                           return good.substr(0, good.size() - 1);
                         }},
                   "MESSAGE_MALFORMED"},
        RefusedRow{"B45VarintOverflow",
                   Bytes{kBegin,
                         [](const std::string& good) {
                           return good + "\x08" + std::string(11, '\xff');
                         }},
                   "MESSAGE_MALFORMED"},
        // The start of a group, 101 deep, each of which ends.
        RefusedRow{"B45Depth101",
                   Bytes{kBegin,
                         [](const std::string& good) {
                           return good + std::string(101, '\x7b') +
                                  std::string(101, '\x7c');
                         }},
                   "MESSAGE_MALFORMED"},
        RefusedRow{"B45LengthOfTwoGigabytes",
                   Bytes{kBegin,
                         [](const std::string& good) {
                           return good + "\x12\xff\xff\xff\xff\x07key";
                         }},
                   "MESSAGE_MALFORMED"},
        RefusedRow{"B52UnknownMethod", Bytes{MethodPath("Steal"), AsIs}, "", "",
                   kUnimplemented},
        RefusedRow{"B52OtherSpelling", Bytes{MethodPath("begin"), AsIs}, "", "",
                   kUnimplemented},
        RefusedRow{"B52UnknownVersion",
                   Bytes{"/dedupe.v2.DedupeService/Begin", AsIs}, "", "",
                   kUnimplemented},
        RefusedRow{"B52UnknownService", Bytes{"/nothing/at/all", AsIs}, "", "",
                   kUnimplemented},
        RefusedRow{"B52NoMethod", Bytes{"/", AsIs}, "", "", kUnimplemented}),
    kRowName);

INSTANTIATE_TEST_SUITE_P(
    Messages, AcceptedRequestTest,
    ::testing::Values(
        AcceptedRow{"B28MessageOfMost", Bytes{kBegin,
                                              [](const std::string& good) {
                                                return UpTo(kMessageMost, good);
                                              }}},
        AcceptedRow{"B45Depth100", Bytes{kBegin,
                                         [](const std::string& good) {
                                           return good +
                                                  std::string(100, '\x7b') +
                                                  std::string(100, '\x7c');
                                         }}}),
    kRowName);

}  // namespace
}  // namespace dedupe::testing
