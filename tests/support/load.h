// Load: callers that begin and complete one key after the other, as fast as the
// server lets them, all on one thread of ours.
#ifndef DEDUPE_TESTS_SUPPORT_LOAD_H_
#define DEDUPE_TESTS_SUPPORT_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tests/support/grpc_client.h"

namespace dedupe::testing {

struct LoadOptions {
  std::string address;
  Identity identity = {};
  // Each has one call in flight at any time.
  int callers = 256;
  // Connections that they share.
  int channels = 4;
  // Not counted.
  absl::Duration warm_up = absl::Milliseconds(500);
  absl::Duration duration = absl::Seconds(3);
  size_t response_bytes = 256;
};

struct LoadResult {
  // Begin and Complete, both OK.
  int64_t pairs = 0;
  double pairs_per_second = 0;
  absl::Duration begin_p50;
  absl::Duration begin_p99;
  // Calls that were not OK, or a Begin that did not start; the first in words.
  int64_t failures = 0;
  std::string first_failure;
};

// Blocks for warm_up + duration. Every key is new.
LoadResult RunPairs(const LoadOptions& options);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_LOAD_H_
