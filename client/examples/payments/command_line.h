#ifndef PAYMENTS_COMMAND_LINE_H_
#define PAYMENTS_COMMAND_LINE_H_

#include <algorithm>
#include <cstring>

#include "absl/flags/parse.h"

namespace payments {

// absl::ParseCommandLine, but for flags that are spelt with dashes: a flag
// named ledger_url is given as --ledger-url=...
inline void ParseCommandLine(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0) continue;
    char* name = argv[i] + 2;
    std::replace(name, name + std::strcspn(name, "="), '-', '_');
  }
  absl::ParseCommandLine(argc, argv);
}

}  // namespace payments

#endif  // PAYMENTS_COMMAND_LINE_H_
