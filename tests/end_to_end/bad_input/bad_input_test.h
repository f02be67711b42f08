// Everything that a caller may send and should not, row by row as in
// tests/BAD_INPUT.md: the names of the tests begin with the row's.
#ifndef DEDUPE_TESTS_END_TO_END_BAD_INPUT_BAD_INPUT_TEST_H_
#define DEDUPE_TESTS_END_TO_END_BAD_INPUT_BAD_INPUT_TEST_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/still_serving.h"

namespace dedupe::testing {

inline constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
inline constexpr auto kPrecondition = grpc::StatusCode::FAILED_PRECONDITION;
inline constexpr auto kNotFound = grpc::StatusCode::NOT_FOUND;
inline constexpr const char* kMethods[] = {"Begin", "Complete", "Extend",
                                           "Release", "Lookup"};

// An attempt that has been told to run.
struct Holding {
  v1::BeginRequest begin;
  v1::Started started;
};

class BadInputTest : public StillServingTest {
 protected:
  Holding Hold(const v1::BeginRequest& begin) {
    const BeginReply reply = client().Begin(begin);
    EXPECT_THAT(reply, IsStarted());
    return {begin, reply.message.started()};
  }
  Holding Hold() { return Hold(BeginOf(Key(), "attempt-1")); }

  // Whose lease lasts 100 ms, and has lapsed.
  Holding HoldAndLapse() {
    v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
    *begin.mutable_lease() = ToProto(absl::Milliseconds(100));
    Holding held = Hold(begin);
    WaitUntilPast(held.started.lease_expires_at());
    return held;
  }

  CompleteReply Complete(const Holding& held, const std::string& body) {
    return client().Complete(
        CompleteOf(held.begin, held.started.fence(), body));
  }

  RawReply Send(const std::string& method, const std::string& bytes) {
    return CallRaw(client().channel(), MethodPath(method), bytes);
  }

  // A moment for CountChangesSince.
  static std::string Now() {
    return SqlValue(Shared().url(),
                    "SELECT pg_snapshot_xmax(pg_current_snapshot())");
  }
  // Of the records, whoever's they are, those made or changed since then.
  static std::string CountChangesSince(const std::string& moment) {
    return SqlValue(Shared().url(),
                    absl::StrCat("SELECT count(*) FROM dedupe.record WHERE"
                                 " xmin::text::bigint >= ",
                                 moment));
  }
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_BAD_INPUT_BAD_INPUT_TEST_H_
