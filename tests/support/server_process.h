// A real `dedupe serve`, and the commands beside it.
#ifndef DEDUPE_TESTS_SUPPORT_SERVER_PROCESS_H_
#define DEDUPE_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace dedupe::testing {

// The binary under test.
std::string DedupeBinary();

class ServerProcess {
 public:
  struct Options {
    std::string database_url;
    // Beyond --drain-delay=0s, such as "--batch-max=1".
    std::vector<std::string> settings;
    Environment environment;
    // Return from the constructor only when health is SERVING.
    bool wait_until_ready = true;
  };

  // Serves on a free port of 127.0.0.1. A server that does not come up ends the
  // test program with its log.
  explicit ServerProcess(Options options);

  // Such as "127.0.0.1:40123"; stays the same over Restart().
  const std::string& address() const { return address_; }
  Process& process() { return *process_; }
  // Ends it with SIGKILL if it still runs, and starts it anew on its address.
  void Restart();

 private:
  void Launch();

  const Options options_;
  std::string address_;
  int launches_ = 0;
  std::unique_ptr<Process> process_;
};

// A port of 127.0.0.1 that nobody listens on just now.
int FreePort();

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_SERVER_PROCESS_H_
