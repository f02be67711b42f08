// The commands with which an administrator manages who may touch what:
// `dedupe principal ...` and `dedupe token ...`.
#ifndef DEDUPE_SERVER_APP_ACCESS_COMMANDS_H_
#define DEDUPE_SERVER_APP_ACCESS_COMMANDS_H_

#include <string>
#include <vector>

namespace dedupe {

// Each takes the words behind its own, does what they ask, and returns the exit
// code: 0, 1 if it failed, 2 if it was called wrongly. Results go to standard
// output, everything else to standard error. Neither shows a word that may be a
// token, except the new one that was asked for.
int RunPrincipalCommand(const std::vector<std::string>& words);
int RunTokenCommand(const std::vector<std::string>& words);

// For the help: one line for each command, and what its options mean.
std::string AccessCommandsHelp();

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_ACCESS_COMMANDS_H_
