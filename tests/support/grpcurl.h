// grpcurl, a client that knows nothing of our stubs: what it shows is what
// somebody else's program sees, by way of the server's own reflection.
#ifndef DEDUPE_TESTS_SUPPORT_GRPCURL_H_
#define DEDUPE_TESTS_SUPPORT_GRPCURL_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dedupe::testing {

// Optional: without it tests have to skip.
bool HasGrpcurl();

struct GrpcurlReply {
  bool ok = false;
  // If OK: protobuf's JSON, in which int64 and bytes are strings.
  nlohmann::json message;
  // Else what grpcurl prints of the status, its details decoded.
  std::string error;
};

class Grpcurl {
 public:
  explicit Grpcurl(std::string address) : address_(std::move(address)) {}

  // A method of dedupe.v1.DedupeService, or a whole "service/Method".
  GrpcurlReply Call(const std::string& method, const nlohmann::json& request,
                    const std::vector<std::string>& options = {}) const;
  // Runs `grpcurl ADDRESS list` and returns what it prints, or the error.
  std::string ListServices() const;

 private:
  std::string address_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_GRPCURL_H_
