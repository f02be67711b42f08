#include "tests/support/server_process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dedupe::testing {

std::string DedupeBinary() { return BuildDirectory() + "/server/dedupe"; }

ServerProcess::ServerProcess(Options options)
    : options_(std::move(options)),
      address_(absl::StrCat("127.0.0.1:", FreePort())) {
  Launch();
}

void ServerProcess::Restart() {
  process_.reset();
  Launch();
}

void ServerProcess::Launch() {
  static std::atomic<int> count{0};
  std::vector<std::string> argv = {DedupeBinary(), "serve", "--drain-delay=0s",
                                   absl::StrCat("--listen-address=", address_)};
  argv.insert(argv.end(), options_.settings.begin(), options_.settings.end());
  // The connection string in the environment, as deployments are told to.
  Environment environment = options_.environment;
  environment.emplace_back("DEDUPE_DATABASE_URL", options_.database_url);
  process_ = std::make_unique<Process>(
      argv, environment,
      absl::StrCat(ScratchDirectory(), "/server-", ++count, "-", ++launches_,
                   ".log"));
  const char* event = options_.wait_until_ready ? "\"event\":\"ready\""
                                                : "\"event\":\"serving\"";
  if (!process_->WaitForOutput(event)) {
    std::fprintf(stderr, "the server did not come up: %s\n",
                 process_->Output().c_str());
    std::exit(1);
  }
}

int FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
      0) {
    std::perror("bind");
    std::exit(1);
  }
  socklen_t length = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  close(listener);
  return ntohs(address.sin_port);
}

}  // namespace dedupe::testing
