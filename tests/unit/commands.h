// Commands that break no rule: a test changes only what it is about.
#ifndef DEDUPE_TESTS_UNIT_COMMANDS_H_
#define DEDUPE_TESTS_UNIT_COMMANDS_H_

#include <string>

#include "absl/time/time.h"
#include "server/service/record.h"

namespace dedupe::testing {

inline RecordId ValidId() { return {"acme", "key-1"}; }

inline Holder ValidHolder() { return {"attempt-1", 7}; }

inline BeginCommand ValidBegin() {
  BeginCommand command;
  command.id = ValidId();
  command.operation = "POST /v1/charges";
  command.fingerprint = std::string(32, '\xfe');
  command.attempt_id = "attempt-1";
  return command;
}

inline CompleteCommand ValidComplete() {
  return {ValidId(),
          ValidHolder(),
          {201, {{"content-type", "text/plain"}}, "done", false}};
}

inline ExtendCommand ValidExtend() {
  return {ValidId(), ValidHolder(), absl::Seconds(30), "half way"};
}

inline ReleaseCommand ValidRelease() {
  return {ValidId(), ValidHolder(), false};
}

inline LookupCommand ValidLookup() { return {ValidId()}; }

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_COMMANDS_H_
