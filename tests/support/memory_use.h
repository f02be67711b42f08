// How much memory a process takes, as the kernel counts it.
#ifndef DEDUPE_TESTS_SUPPORT_MEMORY_USE_H_
#define DEDUPE_TESTS_SUPPORT_MEMORY_USE_H_

#include <sys/types.h>

#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace dedupe::testing {

// In MiB, a line of /proc/PID/status: "VmRSS" is what is resident, "VmHWM" the
// most that ever was. 0 if there is no such process.
inline double MemoryUse(pid_t pid, absl::string_view line_name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    double kibibytes = 0;
    if (absl::ConsumePrefix(&rest, absl::StrCat(line_name, ":")) &&
        absl::ConsumeSuffix(&rest, "kB") &&
        absl::SimpleAtod(rest, &kibibytes)) {
      return kibibytes / 1024;
    }
  }
  return 0;
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_MEMORY_USE_H_
