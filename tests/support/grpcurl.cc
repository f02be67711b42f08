#include "tests/support/grpcurl.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/process.h"

namespace dedupe::testing {

bool HasGrpcurl() { return HasProgram("grpcurl"); }

GrpcurlReply Grpcurl::Call(const std::string& method,
                           const nlohmann::json& request,
                           const std::vector<std::string>& options) const {
  std::vector<std::string> argv = {"grpcurl", "-plaintext", "-max-time", "20",
                                   "-emit-defaults"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.insert(argv.end(),
              {"-d", request.dump(), address_,
               absl::StrContains(method, "/")
                   ? method
                   : absl::StrCat("dedupe.v1.DedupeService/", method)});
  const ProcessResult result = RunProcess(argv);
  GrpcurlReply reply;
  reply.ok = result.exit_code == 0;
  if (reply.ok) {
    reply.message =
        nlohmann::json::parse(result.standard_output, nullptr, false);
  } else {
    reply.error = result.standard_error;
  }
  return reply;
}

std::string Grpcurl::ListServices() const {
  const ProcessResult result = RunProcess(
      {"grpcurl", "-plaintext", "-max-time", "20", address_, "list"});
  return result.standard_output + result.standard_error;
}

}  // namespace dedupe::testing
