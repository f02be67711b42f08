// The words of a command that has some of its own besides the settings: a verb,
// a name perhaps, and options.
#ifndef DEDUPE_SERVER_APP_COMMAND_WORDS_H_
#define DEDUPE_SERVER_APP_COMMAND_WORDS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dedupe {

struct CommandWords {
  // Such as `set`; empty if there is none.
  std::string verb;
  // What stands right behind it, unless it begins with two dashes.
  std::optional<std::string> name;
  // By their names, such as "--role". The last of several counts.
  std::map<std::string, std::string> options;
  // Everything else, for LoadConfig(), in the order in which it stood.
  std::vector<std::string> settings;

  // Of an option; unset if it was not given.
  std::optional<std::string> Find(absl::string_view option) const;
};

// options: those that the command knows, with a value each (--name=value or
// --name value). INVALID_ARGUMENT: one of them has no value.
absl::StatusOr<CommandWords> ParseCommandWords(
    const std::vector<std::string>& words,
    const std::vector<std::string>& options);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_COMMAND_WORDS_H_
