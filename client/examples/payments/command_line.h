#ifndef PAYMENTS_COMMAND_LINE_H_
#define PAYMENTS_COMMAND_LINE_H_

#include <algorithm>
#include <cstring>

#include "absl/flags/parse.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace payments {

// absl::ParseCommandLine, but for flags that are spelt with dashes: a flag
// named ledger_url is given as --ledger-url=... --help shows those of this
// folder.
inline void ParseCommandLine(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0) continue;
    char* name = argv[i] + 2;
    std::replace(name, name + std::strcspn(name, "="), '-', '_');
  }
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::StrContains(file, "examples/payments");
  };
  absl::SetFlagsUsageConfig(config);
  absl::ParseCommandLine(argc, argv);
}

}  // namespace payments

#endif  // PAYMENTS_COMMAND_LINE_H_
