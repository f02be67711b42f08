// Matchers for what a call is refused with.
#ifndef DEDUPE_TESTS_UNIT_REFUSAL_MATCHERS_H_
#define DEDUPE_TESTS_UNIT_REFUSAL_MATCHERS_H_

#include <gmock/gmock.h>

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/service/reason.h"

namespace dedupe {

// Found by GoogleTest, which then prints a reason as it goes over the wire.
inline void PrintTo(Reason reason, std::ostream* out) {
  *out << "reason " << static_cast<int>(reason) << " " << ReasonName(reason);
}

namespace testing {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << "which is " << StatusOf(arg).ToString();
  return arg.ok();
}

// Of a Status or StatusOr.
MATCHER_P(IsRefusal, reason,
          "refuses with " + ::testing::PrintToString(reason)) {
  *result_listener << "which is " << StatusOf(arg).ToString();
  return ReasonOf(StatusOf(arg)) == reason && !arg.ok();
}

MATCHER_P2(IsRefusal, reason, field,
           "refuses \"" + std::string(field) + "\" with " +
               ::testing::PrintToString(reason)) {
  *result_listener << "which is " << StatusOf(arg).ToString() << " of field \""
                   << FieldOf(StatusOf(arg)) << "\"";
  return ReasonOf(StatusOf(arg)) == reason && FieldOf(StatusOf(arg)) == field;
}

}  // namespace testing
}  // namespace dedupe

#endif  // DEDUPE_TESTS_UNIT_REFUSAL_MATCHERS_H_
