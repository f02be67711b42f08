// What a server's error says beyond its code.
#ifndef DEDUPE_CLIENT_SRC_ERROR_DETAILS_H_
#define DEDUPE_CLIENT_SRC_ERROR_DETAILS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace dedupe::client {

struct ErrorDetails {
  // Of google.rpc.ErrorInfo; empty where there is none.
  std::string reason;
  std::string domain;
  // Of google.rpc.RetryInfo.
  std::optional<absl::Duration> retry_delay;
};

// Reads a serialised google.rpc.Status. What cannot be read is left out: it
// comes from the network.
ErrorDetails DecodeErrorDetails(const std::string& bytes);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_ERROR_DETAILS_H_
