// What a fuzz target asserts. Unlike assert() it is there in every build, and
// libFuzzer keeps the input of whatever aborts.
#ifndef DEDUPE_TESTS_FUZZ_CHECK_H_
#define DEDUPE_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace dedupe::testing {

// what: the rule, in words.
inline void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_FUZZ_CHECK_H_
