// A gRPC server between a client and the real one: it passes calls on, notes
// them, and does to chosen ones what networks and newer servers do.
#ifndef DEDUPE_TESTS_SUPPORT_RELAY_SERVER_H_
#define DEDUPE_TESTS_SUPPORT_RELAY_SERVER_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace dedupe::testing {

class RelayServer {
 public:
  // A call as it arrived.
  struct Seen {
    // Such as "Begin".
    std::string method;
    // The request's bytes, for telling repetitions from new requests.
    std::string request;
    std::string attempt_id;
    std::chrono::steady_clock::time_point arrived_at;
  };

  // What happens to a call, in this order.
  struct Fate {
    // Answered with this, and not passed on.
    std::optional<grpc::Status> instead_of_call = {};
    absl::Duration delay_of_call = {};
    // Passed on, and the answer replaced by this.
    std::optional<grpc::Status> instead_of_answer = {};
    std::function<void(google::protobuf::Message&)> change_answer = {};
    absl::Duration delay_of_answer = {};
  };
  // n counts the calls of that method from 1.
  using Decide = std::function<Fate(const std::string& method, int n)>;

  // Passes calls on to that address of a server. Connections are closed when
  // they have reached the age, as load balancers do.
  explicit RelayServer(
      const std::string& upstream,
      absl::Duration connection_age_max = absl::InfiniteDuration());
  // Delays are cut short.
  ~RelayServer();
  RelayServer(const RelayServer&) = delete;
  RelayServer& operator=(const RelayServer&) = delete;

  const std::string& address() const;
  // For the calls from now on; before, all are passed on as they are.
  void Set(Decide decide);
  std::vector<Seen> seen() const;
  // Of the calls seen, those of that method.
  std::vector<Seen> seen(const std::string& method) const;

 private:
  class Service;

  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// An error as dedupe makes it.
grpc::Status DedupeError(grpc::StatusCode code, const std::string& reason,
                         std::optional<absl::Duration> retry_delay = {});

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_RELAY_SERVER_H_
