#include "tests/support/administrator.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "tests/support/server_process.h"

namespace dedupe::testing {

ProcessResult Administrator::Run(const std::vector<std::string>& words) const {
  std::vector<std::string> argv = {DedupeBinary()};
  argv.insert(argv.end(), words.begin(), words.end());
  return RunProcess(argv, {{"DEDUPE_DATABASE_URL", url_}});
}

void Administrator::SetPrincipal(
    const std::string& name, const std::vector<std::string>& options) const {
  std::vector<std::string> words = {"principal", "set", name};
  words.insert(words.end(), options.begin(), options.end());
  Must(words);
}

std::string Administrator::CreateToken(
    const std::string& principal,
    const std::vector<std::string>& options) const {
  std::vector<std::string> words = {"token", "create", principal};
  words.insert(words.end(), options.begin(), options.end());
  return std::string(absl::StripAsciiWhitespace(Must(words)));
}

void Administrator::RevokeToken(const std::string& token) const {
  Must({"token", "revoke", IdOfToken(token)});
}

std::string Administrator::Must(const std::vector<std::string>& words) const {
  ProcessResult result = Run(words);
  if (result.exit_code != 0) {
    std::fprintf(stderr, "dedupe %s: %s\n", absl::StrJoin(words, " ").c_str(),
                 result.standard_error.c_str());
    std::exit(1);
  }
  return std::move(result.standard_output);
}

std::string IdOfToken(const std::string& token) {
  const size_t begin = token.find('_') + 1;
  return token.substr(begin, token.find('.') - begin);
}

}  // namespace dedupe::testing
