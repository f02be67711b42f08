// Asks the standard gRPC health service, whose messages are one field each.
#ifndef DEDUPE_TESTS_END_TO_END_HEALTH_CLIENT_H_
#define DEDUPE_TESTS_END_TO_END_HEALTH_CLIENT_H_

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/grpc_client.h"

namespace dedupe::testing {

enum class HealthState { kServing, kNotServing, kUnknownService, kNoAnswer };

class HealthClient {
 public:
  explicit HealthClient(const std::string& address)
      : channel_(OpenChannel(address)) {}

  HealthState Check(const std::string& service) const {
    const std::string request =
        service.empty()
            ? ""
            : std::string("\x0a") + static_cast<char>(service.size()) + service;
    const RawReply reply = CallRaw(channel_, "/grpc.health.v1.Health/Check",
                                   request, absl::Seconds(2));
    if (reply.status.error_code() == grpc::StatusCode::NOT_FOUND) {
      return HealthState::kUnknownService;
    }
    if (reply.message == "\x08\x01") return HealthState::kServing;
    if (reply.message == "\x08\x02") return HealthState::kNotServing;
    return HealthState::kNoAnswer;
  }

  // How long it took until the service was so; the limit if it never was.
  absl::Duration WaitFor(const std::string& service, HealthState wanted,
                         absl::Duration limit) const {
    const absl::Time start = absl::Now();
    while (absl::Now() - start < limit) {
      if (Check(service) == wanted) return absl::Now() - start;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return limit;
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_HEALTH_CLIENT_H_
