#include "server/app/command_words.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace dedupe {

std::optional<std::string> CommandWords::Find(absl::string_view option) const {
  const auto found = options.find(std::string(option));
  if (found == options.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<CommandWords> ParseCommandWords(
    const std::vector<std::string>& words,
    const std::vector<std::string>& options) {
  CommandWords parsed;
  size_t next = 0;
  const auto is_plain = [&] {
    return next < words.size() && !absl::StartsWith(words[next], "--");
  };
  if (is_plain()) parsed.verb = words[next++];
  if (is_plain()) parsed.name = words[next++];
  for (; next < words.size(); ++next) {
    const std::string& word = words[next];
    const size_t equals = word.find('=');
    const std::string option =
        absl::StrReplaceAll(word.substr(0, equals), {{"_", "-"}});
    if (std::find(options.begin(), options.end(), option) == options.end()) {
      parsed.settings.push_back(word);
    } else if (equals != word.npos) {
      parsed.options[option] = word.substr(equals + 1);
    } else if (next + 1 < words.size()) {
      parsed.options[option] = words[++next];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " needs a value; write ", option, "=VALUE"));
    }
  }
  return parsed;
}

}  // namespace dedupe
