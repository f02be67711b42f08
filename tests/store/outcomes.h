// What a store answers: in words, and matched.
#ifndef DEDUPE_TESTS_STORE_OUTCOMES_H_
#define DEDUPE_TESTS_STORE_OUTCOMES_H_

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "server/service/reason.h"
#include "server/service/record.h"
#include "server/service/store.h"

// In the namespace of the answers, so that GoogleTest finds them.
namespace dedupe {

std::string Describe(const BeginAnswer& answer);
std::string Describe(const CompleteAnswer& answer);
std::string Describe(const ExtendAnswer& answer);
std::string Describe(const ReleaseAnswer& answer);
std::string Describe(const LookupAnswer& answer);
std::string Describe(const ReapAnswer& answer);
std::string Describe(const ProbeAnswer& answer);
// The name of its reason, or its text.
std::string DescribeRefusal(const absl::Status& status);

template <typename Answer>
std::string Describe(const absl::StatusOr<Answer>& answer) {
  return answer.ok() ? Describe(*answer) : DescribeRefusal(answer.status());
}

template <typename Answer>
void PrintTo(const absl::StatusOr<Answer>& answer, std::ostream* out) {
  *out << Describe(answer);
}

namespace testing {

MATCHER_P(RefusedAs, reason,
          std::string(negation ? "not " : "") + "refused as " +
              std::string(ReasonName(reason))) {
  return !arg.ok() && ReasonOf(arg.status()) == reason;
}

MATCHER(IsOk, negation ? "refused" : "not refused") { return arg.ok(); }

// A BeginAnswer with this kind of outcome.
template <typename Outcome>
bool Is(const absl::StatusOr<BeginAnswer>& answer) {
  return answer.ok() && std::holds_alternative<Outcome>(answer->outcome);
}

// The outcome; an empty one and a failure if it is of another kind.
template <typename Outcome>
Outcome Get(const absl::StatusOr<BeginAnswer>& answer) {
  if (Is<Outcome>(answer)) return std::get<Outcome>(answer->outcome);
  ADD_FAILURE() << "another outcome than expected: " << Describe(answer);
  return Outcome();
}

}  // namespace testing
}  // namespace dedupe

#endif  // DEDUPE_TESTS_STORE_OUTCOMES_H_
