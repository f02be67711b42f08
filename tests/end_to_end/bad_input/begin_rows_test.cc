// Rows about the fields of Begin: texts, bytes, durations and the enum.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "tests/end_to_end/bad_input/request_rows.h"

namespace dedupe::testing {
namespace {

using Begin = v1::BeginRequest;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
// The bounds of ttl, in seconds.
constexpr int64_t kTtlMost = 31 * 24 * 3600;

INSTANTIATE_TEST_SUITE_P(
    BeginTexts, RefusedRequestTest,
    ::testing::Values(
        RefusedRow{"B01KeyUnset", [](Begin& r) { r.clear_key(); }, "KEY_EMPTY",
                   "key"},
        RefusedRow{"B01KeyEmpty", [](Begin& r) { r.set_key(""); }, "KEY_EMPTY",
                   "key"},
        RefusedRow{"B01ClientIdUnset", [](Begin& r) { r.clear_client_id(); },
                   "CLIENT_ID_EMPTY", "client_id"},
        RefusedRow{"B02Key256",
                   [](Begin& r) { r.set_key(std::string(256, 'k')); },
                   "KEY_TOO_LONG", "key"},
        // 255 characters, and 256 bytes.
        RefusedRow{
            "B02Key255Characters",
            [](Begin& r) { r.set_key(std::string(254, 'k') + "\xc3\xa9"); },
            "KEY_TOO_LONG", "key"},
        RefusedRow{"B02ClientId256",
                   [](Begin& r) { r.set_client_id(std::string(256, 'c')); },
                   "CLIENT_ID_TOO_LONG", "client_id"},
        RefusedRow{"B02Operation129",
                   [](Begin& r) { r.set_operation(std::string(129, 'o')); },
                   "OPERATION_TOO_LONG", "operation"},
        RefusedRow{"B03KeyNul",
                   [](Begin& r) { r.set_key(std::string("pay\0X", 5)); },
                   "KEY_CHARACTERS", "key"},
        RefusedRow{"B03KeyNewline",
                   [](Begin& r) { r.mutable_key()->append("\n"); },
                   "KEY_CHARACTERS", "key"},
        RefusedRow{"B03KeyReturn",
                   [](Begin& r) { r.mutable_key()->append("\r"); },
                   "KEY_CHARACTERS", "key"},
        RefusedRow{"B03KeyTab",
                   [](Begin& r) { r.mutable_key()->append("\tx"); },
                   "KEY_CHARACTERS", "key"},
        RefusedRow{"B03KeyEscape",
                   [](Begin& r) { r.mutable_key()->append("\x1b["); },
                   "KEY_CHARACTERS", "key"},
        RefusedRow{"B03KeyDelete",
                   [](Begin& r) { r.mutable_key()->append("\x7f"); },
                   "KEY_CHARACTERS", "key"},
        // U+0085, next line.
        RefusedRow{"B03KeyC1",
                   [](Begin& r) { r.mutable_key()->append("\xc2\x85"); },
                   "KEY_CHARACTERS", "key"},
        RefusedRow{"B03ClientIdNul",
                   [](Begin& r) { r.set_client_id(std::string("ac\0me", 5)); },
                   "CLIENT_ID_CHARACTERS", "client_id"},
        RefusedRow{"B03OperationNewline",
                   [](Begin& r) { r.set_operation("POST /a\r\nHost: b"); },
                   "OPERATION_CHARACTERS", "operation"},
        RefusedRow{"B07AttemptUnset", [](Begin& r) { r.clear_attempt_id(); },
                   "ATTEMPT_ID_EMPTY", "attempt_id"},
        RefusedRow{"B07Attempt65",
                   [](Begin& r) { r.set_attempt_id(std::string(65, 'a')); },
                   "ATTEMPT_ID_TOO_LONG", "attempt_id"},
        RefusedRow{"B07AttemptAllNul",
                   [](Begin& r) { r.set_attempt_id(std::string(16, '\0')); },
                   "ATTEMPT_ID_CHARACTERS", "attempt_id"},
        RefusedRow{"B10FingerprintUnset",
                   [](Begin& r) { r.clear_fingerprint(); }, "FINGERPRINT_EMPTY",
                   "fingerprint"},
        RefusedRow{"B10Fingerprint65",
                   [](Begin& r) { r.set_fingerprint(std::string(65, 'f')); },
                   "FINGERPRINT_TOO_LONG", "fingerprint"}),
    kRowName);

INSTANTIATE_TEST_SUITE_P(
    BeginDurations, RefusedRequestTest,
    ::testing::Values(
        RefusedRow{"B14LeaseZero",
                   [](Begin& r) { *r.mutable_lease() = DurationOf(0, 0); },
                   "LEASE_RANGE", "lease"},
        RefusedRow{"B14LeaseNegative",
                   [](Begin& r) { *r.mutable_lease() = DurationOf(-1, 0); },
                   "LEASE_RANGE", "lease"},
        RefusedRow{
            "B14LeaseBelowLeast",
            [](Begin& r) { *r.mutable_lease() = DurationOf(0, 99'999'999); },
            "LEASE_RANGE", "lease"},
        RefusedRow{"B15LeaseAboveMost",
                   [](Begin& r) { *r.mutable_lease() = DurationOf(900, 1); },
                   "LEASE_RANGE", "lease"},
        RefusedRow{"B15LeaseTenThousandYears",
                   [](Begin& r) {
                     *r.mutable_lease() = DurationOf(315'576'000'000, 0);
                   },
                   "LEASE_RANGE", "lease"},
        RefusedRow{
            "B15LeaseForever",
            [](Begin& r) { *r.mutable_lease() = DurationOf(kForever, 0); },
            "LEASE_MALFORMED", "lease"},
        RefusedRow{"B16LeaseMixedSigns",
                   [](Begin& r) { *r.mutable_lease() = DurationOf(1, -1); },
                   "LEASE_MALFORMED", "lease"},
        RefusedRow{
            "B16LeaseTooManyNanos",
            [](Begin& r) { *r.mutable_lease() = DurationOf(1, 1'000'000'000); },
            "LEASE_MALFORMED", "lease"},
        RefusedRow{"B16TtlMixedSigns",
                   [](Begin& r) { *r.mutable_ttl() = DurationOf(-1, 1); },
                   "TTL_MALFORMED", "ttl"},
        RefusedRow{"B17TtlZero",
                   [](Begin& r) { *r.mutable_ttl() = DurationOf(0, 0); },
                   "TTL_RANGE", "ttl"},
        RefusedRow{"B17TtlNegative",
                   [](Begin& r) { *r.mutable_ttl() = DurationOf(-1, 0); },
                   "TTL_RANGE", "ttl"},
        RefusedRow{"B17TtlOneNanosecond",
                   [](Begin& r) { *r.mutable_ttl() = DurationOf(0, 1); },
                   "TTL_RANGE", "ttl"},
        RefusedRow{"B17TtlAboveMost",
                   [](Begin& r) { *r.mutable_ttl() = DurationOf(kTtlMost, 1); },
                   "TTL_RANGE", "ttl"},
        RefusedRow{"B17TtlTwoTo31",
                   [](Begin& r) {
                     *r.mutable_ttl() = DurationOf(int64_t{1} << 31, 0);
                   },
                   "TTL_RANGE", "ttl"},
        // Five, if it wrapped at 32 bits.
        RefusedRow{"B17TtlTwoTo32AndFive",
                   [](Begin& r) {
                     *r.mutable_ttl() = DurationOf((int64_t{1} << 32) + 5, 0);
                   },
                   "TTL_RANGE", "ttl"},
        RefusedRow{"B17TtlForever",
                   [](Begin& r) { *r.mutable_ttl() = DurationOf(kForever, 0); },
                   "TTL_MALFORMED", "ttl"},
        RefusedRow{"B17TtlMostNegative",
                   [](Begin& r) {
                     *r.mutable_ttl() =
                         DurationOf(std::numeric_limits<int64_t>::min(), 0);
                   },
                   "TTL_MALFORMED", "ttl"},
        RefusedRow{"B17WaitZero",
                   [](Begin& r) { *r.mutable_wait() = DurationOf(0, 0); },
                   "WAIT_RANGE", "wait"},
        RefusedRow{"B17WaitNegative",
                   [](Begin& r) { *r.mutable_wait() = DurationOf(-1, 0); },
                   "WAIT_RANGE", "wait"},
        RefusedRow{"B17WaitAboveMost",
                   [](Begin& r) { *r.mutable_wait() = DurationOf(30, 1); },
                   "WAIT_RANGE", "wait"},
        RefusedRow{
            "B17WaitForever",
            [](Begin& r) { *r.mutable_wait() = DurationOf(kForever, 0); },
            "WAIT_MALFORMED", "wait"},
        RefusedRow{"B29OnLeaseExpiry99",
                   [](Begin& r) {
                     r.set_on_lease_expiry(static_cast<v1::OnLeaseExpiry>(99));
                   },
                   "ON_LEASE_EXPIRY_UNKNOWN", "on_lease_expiry"},
        RefusedRow{"B29OnLeaseExpiryNegative",
                   [](Begin& r) {
                     r.set_on_lease_expiry(static_cast<v1::OnLeaseExpiry>(-1));
                   },
                   "ON_LEASE_EXPIRY_UNKNOWN", "on_lease_expiry"}),
    kRowName);

// What stands next to a bound, on the side that is allowed, and what only
// looks bad.
INSTANTIATE_TEST_SUITE_P(
    Begin, AcceptedRequestTest,
    ::testing::Values(
        // That every other row differs by its fault alone.
        AcceptedRow{"NoFault", [](Begin&) {}},
        AcceptedRow{"B02Key255",
                    [](Begin& r) { r.set_key(std::string(255, 'k')); }},
        AcceptedRow{"B02ClientId255AndKey255",
                    [](Begin& r) {
                      r.set_client_id(std::string(255, 'c'));
                      r.set_key(std::string(255, 'k'));
                    }},
        AcceptedRow{"B02OperationUnset", [](Begin& r) { r.clear_operation(); }},
        AcceptedRow{"B02Operation128",
                    [](Begin& r) { r.set_operation(std::string(128, 'o')); }},
        AcceptedRow{"B06KeyOfSql",
                    [](Begin& r) { r.set_key("'; DROP TABLE k;--"); }},
        AcceptedRow{"B06KeyOfFormat", [](Begin& r) { r.set_key("%n%s"); }},
        AcceptedRow{"B06KeyOfPath", [](Begin& r) { r.set_key("../../x"); }},
        AcceptedRow{"B07Attempt1", [](Begin& r) { r.set_attempt_id("a"); }},
        AcceptedRow{"B07Attempt15",
                    [](Begin& r) { r.set_attempt_id(std::string(15, 'a')); }},
        AcceptedRow{"B07Attempt17",
                    [](Begin& r) { r.set_attempt_id(std::string(17, 'a')); }},
        AcceptedRow{"B07Attempt64",
                    [](Begin& r) { r.set_attempt_id(std::string(64, 'a')); }},
        AcceptedRow{"B10Fingerprint1",
                    [](Begin& r) { r.set_fingerprint("f"); }},
        AcceptedRow{"B10Fingerprint31",
                    [](Begin& r) { r.set_fingerprint(std::string(31, 'f')); }},
        AcceptedRow{"B10Fingerprint33",
                    [](Begin& r) { r.set_fingerprint(std::string(33, 'f')); }},
        // No algorithm is named: bytes of any kind, SHA-512's length the most.
        AcceptedRow{
            "B11Fingerprint16",
            [](Begin& r) { r.set_fingerprint(std::string(16, '\xff')); }},
        AcceptedRow{"B11Fingerprint64AllNul",
                    [](Begin& r) { r.set_fingerprint(std::string(64, '\0')); }},
        AcceptedRow{"B14LeaseUnset", [](Begin& r) { r.clear_lease(); }},
        AcceptedRow{
            "B14LeaseLeast",
            [](Begin& r) { *r.mutable_lease() = DurationOf(0, 100'000'000); }},
        AcceptedRow{
            "B14LeaseHalfASecond",
            [](Begin& r) { *r.mutable_lease() = DurationOf(0, 500'000'000); }},
        AcceptedRow{"B15LeaseMost",
                    [](Begin& r) { *r.mutable_lease() = DurationOf(900, 0); }},
        AcceptedRow{
            "B17TtlLeast",
            [](Begin& r) { *r.mutable_ttl() = DurationOf(0, 100'000'000); }},
        AcceptedRow{"B17TtlOneHour",
                    [](Begin& r) { *r.mutable_ttl() = DurationOf(3600, 0); }},
        AcceptedRow{
            "B17TtlMost",
            [](Begin& r) { *r.mutable_ttl() = DurationOf(kTtlMost, 0); }},
        AcceptedRow{"B17WaitMost",
                    [](Begin& r) { *r.mutable_wait() = DurationOf(30, 0); }},
        AcceptedRow{"B17WaitOneNanosecond",
                    [](Begin& r) { *r.mutable_wait() = DurationOf(0, 1); }},
        AcceptedRow{"B29OnLeaseExpiryUnspecified",
                    [](Begin& r) {
                      r.set_on_lease_expiry(v1::ON_LEASE_EXPIRY_UNSPECIFIED);
                    }},
        AcceptedRow{
            "B29OnLeaseExpiryHold",
            [](Begin& r) { r.set_on_lease_expiry(v1::ON_LEASE_EXPIRY_HOLD); }}),
    kRowName);

}  // namespace
}  // namespace dedupe::testing
