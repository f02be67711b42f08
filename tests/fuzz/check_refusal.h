// A refusal has to tell the caller its reason, by name.
#ifndef DEDUPE_TESTS_FUZZ_CHECK_REFUSAL_H_
#define DEDUPE_TESTS_FUZZ_CHECK_REFUSAL_H_

#include "absl/status/status.h"
#include "server/service/reason.h"
#include "tests/fuzz/check.h"

namespace dedupe::testing {

inline void CheckRefusal(const absl::Status& status) {
  Check(!status.ok(), "a refusal is not OK");
  Check(ReasonOf(status) != Reason::kUnknown, "a refusal carries its reason");
  Check(!ReasonName(ReasonOf(status)).empty(), "a reason has a name");
}

// The same, of a request's field.
inline void CheckFieldRefusal(const absl::Status& status) {
  CheckRefusal(status);
  Check(absl::IsInvalidArgument(status), "a bad field is INVALID_ARGUMENT");
  Check(!FieldOf(status).empty(), "a bad field is named");
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_FUZZ_CHECK_REFUSAL_H_
