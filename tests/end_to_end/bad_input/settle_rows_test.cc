// Rows about the fields of Complete, Extend, Release and Lookup, and about who
// sends them.
#include <gtest/gtest.h>

#include <string>

#include "tests/end_to_end/bad_input/request_rows.h"

namespace dedupe::testing {
namespace {

using Complete = v1::CompleteRequest;
using Extend = v1::ExtendRequest;
using Release = v1::ReleaseRequest;
using Lookup = v1::LookupRequest;

void AddHeader(Complete& request, const std::string& name,
               const std::string& value) {
  v1::Header& header = *request.mutable_response()->add_headers();
  header.set_name(name);
  header.set_value(value);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, RefusedRequestTest,
    ::testing::Values(
        RefusedRow{"B01CompleteKeyUnset", [](Complete& r) { r.clear_key(); },
                   "KEY_EMPTY", "key"},
        RefusedRow{"B01ExtendKeyUnset", [](Extend& r) { r.clear_key(); },
                   "KEY_EMPTY", "key"},
        RefusedRow{"B01ReleaseKeyUnset", [](Release& r) { r.clear_key(); },
                   "KEY_EMPTY", "key"},
        RefusedRow{"B01LookupKeyUnset", [](Lookup& r) { r.clear_key(); },
                   "KEY_EMPTY", "key"},
        RefusedRow{"B01LookupClientIdUnset",
                   [](Lookup& r) { r.clear_client_id(); }, "CLIENT_ID_EMPTY",
                   "client_id"},
        RefusedRow{"B02LookupKey256",
                   [](Lookup& r) { r.set_key(std::string(256, 'k')); },
                   "KEY_TOO_LONG", "key"},
        RefusedRow{"B03LookupKeyNul",
                   [](Lookup& r) { r.set_key(std::string("a\0b", 3)); },
                   "KEY_CHARACTERS", "key"},
        RefusedRow{"B07CompleteAttemptUnset",
                   [](Complete& r) { r.clear_attempt_id(); },
                   "ATTEMPT_ID_EMPTY", "attempt_id"},
        RefusedRow{"B07ExtendAttemptUnset",
                   [](Extend& r) { r.clear_attempt_id(); }, "ATTEMPT_ID_EMPTY",
                   "attempt_id"},
        RefusedRow{"B07ReleaseAttemptUnset",
                   [](Release& r) { r.clear_attempt_id(); }, "ATTEMPT_ID_EMPTY",
                   "attempt_id"},
        RefusedRow{"B14ExtendLeaseZero",
                   [](Extend& r) { *r.mutable_lease() = DurationOf(0, 0); },
                   "LEASE_RANGE", "lease"},
        RefusedRow{"B15ExtendLeaseAboveMost",
                   [](Extend& r) { *r.mutable_lease() = DurationOf(900, 1); },
                   "LEASE_RANGE", "lease"},
        RefusedRow{"B16ExtendLeaseMixedSigns",
                   [](Extend& r) { *r.mutable_lease() = DurationOf(1, -1); },
                   "LEASE_MALFORMED", "lease"},
        RefusedRow{"B21CompleteFenceUnset",
                   [](Complete& r) { r.clear_fence(); }, "FENCE_RANGE",
                   "fence"},
        RefusedRow{"B21CompleteFenceNegative",
                   [](Complete& r) { r.set_fence(-1); }, "FENCE_RANGE",
                   "fence"},
        RefusedRow{"B21ExtendFenceUnset", [](Extend& r) { r.clear_fence(); },
                   "FENCE_RANGE", "fence"},
        RefusedRow{"B21ReleaseFenceNegative",
                   [](Release& r) { r.set_fence(-1); }, "FENCE_RANGE", "fence"},
        RefusedRow{"B27BodyAboveMost",
                   [](Complete& r) {
                     r.mutable_response()->set_body(
                         std::string(256 * 1024 + 1, 'b'));
                   },
                   "RESPONSE_TOO_LARGE", "response.body"},
        RefusedRow{"B27Headers65",
                   [](Complete& r) {
                     for (int i = 0; i < 65; ++i) AddHeader(r, "n", "v");
                   },
                   "HEADERS_TOO_MANY", "response.headers"},
        RefusedRow{"B27HeadersAboveMost",
                   [](Complete& r) {
                     AddHeader(r, "n", std::string(8 * 1024, 'v'));
                     AddHeader(r, "n", std::string(8 * 1024 - 1, 'v'));
                   },
                   "HEADERS_TOO_LARGE", "response.headers"},
        RefusedRow{"B27CheckpointAboveMost",
                   [](Extend& r) { r.set_checkpoint(std::string(4097, 'c')); },
                   "CHECKPOINT_TOO_LARGE", "checkpoint"},
        RefusedRow{"B03HeaderNameEmpty",
                   [](Complete& r) { AddHeader(r, "", "v"); },
                   "HEADER_NAME_EMPTY", "response.headers[0].name"},
        RefusedRow{"B03HeaderNameNewline",
                   [](Complete& r) {
                     AddHeader(r, "n", "v");
                     AddHeader(r, "a\nb", "v");
                   },
                   "HEADER_NAME_CHARACTERS", "response.headers[1].name"},
        RefusedRow{"B03HeaderValueNul",
                   [](Complete& r) { AddHeader(r, "n", std::string("\0", 1)); },
                   "HEADER_VALUE_CHARACTERS", "response.headers[0].value"},
        RefusedRow{"B31ResponseUnset", [](Complete& r) { r.clear_response(); },
                   "RESPONSE_MISSING", "response"},
        RefusedRow{"B31BodyNotOmitted",
                   [](Complete& r) { r.set_body_omitted(true); },
                   "BODY_NOT_OMITTED", "response.body"}),
    kRowName);

INSTANTIATE_TEST_SUITE_P(
    Senders, RefusedRequestTest,
    ::testing::Values(
        RefusedRow{"B19CompleteOfAbsentKey",
                   [](Complete& r) { r.mutable_key()->append("/absent"); },
                   "KEY_UNKNOWN", "", kNotFound},
        RefusedRow{"B20CompleteOfAnotherAttempt",
                   [](Complete& r) { r.set_attempt_id("attempt-2"); },
                   "LEASE_LOST", "", kPrecondition},
        RefusedRow{"B21CompleteFenceTooLow",
                   [](Complete& r) { r.set_fence(r.fence() - 1); },
                   "LEASE_LOST", "", kPrecondition},
        RefusedRow{"B21CompleteFenceTooHigh",
                   [](Complete& r) { r.set_fence(r.fence() + 1); },
                   "LEASE_LOST", "", kPrecondition},
        RefusedRow{"B33ExtendOfAnotherAttempt",
                   [](Extend& r) { r.set_attempt_id("attempt-2"); },
                   "LEASE_LOST", "", kPrecondition},
        RefusedRow{"B33ExtendOfAbsentKey",
                   [](Extend& r) { r.mutable_key()->append("/absent"); },
                   "KEY_UNKNOWN", "", kNotFound},
        RefusedRow{"B35ReleaseOfAnotherAttempt",
                   [](Release& r) { r.set_attempt_id("attempt-2"); },
                   "LEASE_LOST", "", kPrecondition},
        RefusedRow{"B35ReleaseOfAbsentKey",
                   [](Release& r) { r.mutable_key()->append("/absent"); },
                   "KEY_UNKNOWN", "", kNotFound},
        // What is another client's is absent, even to who knows the rest.
        RefusedRow{"B36CompleteForAnotherClient",
                   [](Complete& r) { r.set_client_id("globex"); },
                   "KEY_UNKNOWN", "", kNotFound},
        RefusedRow{"B36ExtendForAnotherClient",
                   [](Extend& r) { r.set_client_id("globex"); }, "KEY_UNKNOWN",
                   "", kNotFound},
        RefusedRow{"B36ReleaseForAnotherClient",
                   [](Release& r) { r.set_client_id("globex"); }, "KEY_UNKNOWN",
                   "", kNotFound}),
    kRowName);

INSTANTIATE_TEST_SUITE_P(
    Holder, AcceptedRequestTest,
    ::testing::Values(
        AcceptedRow{"NoFaultInComplete", [](Complete&) {}},
        AcceptedRow{"NoFaultInExtend", [](Extend&) {}},
        AcceptedRow{"NoFaultInRelease", [](Release&) {}},
        AcceptedRow{"NoFaultInLookup", [](Lookup&) {}},
        AcceptedRow{"B26BodyEmpty",
                    [](Complete& r) { r.mutable_response()->clear_body(); }},
        AcceptedRow{"B27BodyMost",
                    [](Complete& r) {
                      r.mutable_response()->set_body(
                          std::string(256 * 1024, 'b'));
                    }},
        AcceptedRow{
            "B27CheckpointMost",
            [](Extend& r) { r.set_checkpoint(std::string(4096, 'c')); }},
        AcceptedRow{"B31ResponseEmpty",
                    [](Complete& r) { r.mutable_response()->Clear(); }}),
    kRowName);

}  // namespace
}  // namespace dedupe::testing
