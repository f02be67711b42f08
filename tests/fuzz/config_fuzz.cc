// server/app/config.h: the command line, the environment and the file that
// holds the connection string. Each line of an input is a word of the command
// line, or a variable if it begins with "DEDUPE_"; what follows a line "FILE"
// is what the file FILE holds. The only file it reads is that one, in memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/app/config.h"
#include "server/app/settings.h"
#include "tests/fuzz/check.h"

namespace dedupe {
namespace {

using ::dedupe::testing::Check;

constexpr char kSecret[] = "5wordfi5h";

// Where an input writes PASSWORD in a connection string, there a password is.
std::string WithSecret(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"password=PASSWORD", absl::StrCat("password=", kSecret)},
             {":PASSWORD@", absl::StrCat(":", kSecret, "@")}});
}

// Holds what an input wants; its name takes part in nothing else.
class File {
 public:
  File() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Check(descriptor_ >= 0, "there is a file in memory");
  }
  void Write(absl::string_view content) const {
    Check(ftruncate(descriptor_, 0) == 0 &&
              pwrite(descriptor_, content.data(), content.size(), 0) ==
                  static_cast<ssize_t>(content.size()),
          "the file can be written");
  }
  std::string Path() const {
    return absl::StrCat("/proc/self/fd/", descriptor_);
  }

 private:
  int descriptor_;
};

// What the setting --database-url-file may be: the one file, or a path that
// leads nowhere. Debian gives the name /nonexistent to nothing.
std::string Harmless(const std::string& path, const File& file) {
  if (path.empty()) return path;
  if (path == "FILE") return file.Path();
  return absl::StrCat("/nonexistent/", WithSecret(path));
}

// A setting's value, by its name.
std::string Prepared(absl::string_view name, const std::string& value,
                     const File& file) {
  if (name == "--database-url-file") return Harmless(value, file);
  if (name == "--database-url") return WithSecret(value);
  return value;
}

std::string SettingName(absl::string_view argument) {
  return absl::StrReplaceAll(argument.substr(0, argument.find('=')),
                             {{"_", "-"}});
}

// Whether the next word is the setting's value. Asked of the flags themselves:
// a file that is taken for another setting's value would not be harmless.
bool TakesAWord(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "--")) return false;
  const absl::CommandLineFlag* flag =
      absl::FindCommandLineFlag(absl::StrReplaceAll(name, {{"-", "_"}}));
  return flag != nullptr && !flag->IsOfType<bool>();
}

std::vector<std::string> PrepareArguments(std::vector<std::string> arguments,
                                          const File& file) {
  std::string waiting;
  for (std::string& argument : arguments) {
    if (!waiting.empty()) {
      argument = Prepared(std::exchange(waiting, ""), argument, file);
      continue;
    }
    const std::string name = SettingName(argument);
    const size_t equals = argument.find('=');
    if (!absl::StartsWith(argument, "--") || absl::StrContains(name, "://")) {
      argument = WithSecret(argument);
    } else if (equals != std::string::npos) {
      argument =
          absl::StrCat(argument.substr(0, equals + 1),
                       Prepared(name, argument.substr(equals + 1), file));
    } else if (TakesAWord(name)) {
      waiting = name;
    }
  }
  return arguments;
}

std::vector<std::string> PrepareVariables(std::vector<std::string> variables,
                                          const File& file) {
  for (std::string& variable : variables) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    const absl::string_view setting =
        parts.first == "DEDUPE_DATABASE_URL"        ? "--database-url"
        : parts.first == "DEDUPE_DATABASE_URL_FILE" ? "--database-url-file"
                                                    : "";
    variable =
        absl::StrCat(parts.first, "=", Prepared(setting, parts.second, file));
  }
  return variables;
}

// The process's environment, for as long as it lives: setenv() would leak.
class OwnEnvironment {
 public:
  explicit OwnEnvironment(std::vector<std::string> variables)
      : variables_(std::move(variables)), before_(environ) {
    for (std::string& variable : variables_) {
      pointers_.push_back(variable.data());
    }
    pointers_.push_back(nullptr);
    environ = pointers_.data();
  }
  ~OwnEnvironment() { environ = before_; }

  OwnEnvironment(const OwnEnvironment&) = delete;
  OwnEnvironment& operator=(const OwnEnvironment&) = delete;

 private:
  std::vector<std::string> variables_;
  std::vector<char*> pointers_;
  char** before_;
};

// LoadConfig reads into flags, which are global. Not absl::FlagSaver, which
// logs each one that it restores.
void ForgetSettings() {
  static const auto* const kFlags =
      new absl::flat_hash_map<absl::string_view, absl::CommandLineFlag*>(
          absl::GetAllFlags());
  for (const auto& [name, flag] : *kFlags) {
    if (!absl::EndsWith(flag->Filename(), "server/app/config.cc")) continue;
    std::string error;
    Check(flag->ParseFrom(flag->DefaultValue(), &error), "a default parses");
  }
}

void CheckLoaded(const Config& config) {
  Check(!config.database_url.empty(), "a database is named");
  Check(config.connections >= 1 && config.connections <= 64, "--connections");
  Check(config.batch_max >= 1 && config.batch_max <= 256, "--batch-max");
  Check(config.queue_max >= 1 && config.queue_max <= 1'000'000, "--queue-max");
  Check(config.waiters_max <= 1'000'000, "--waiters-max");
  Check(config.statement_timeout >= absl::Milliseconds(100) &&
            config.statement_timeout <= absl::Minutes(1),
        "--statement-timeout");
  Check(config.reap_interval >= absl::Milliseconds(10) &&
            config.reap_interval <= absl::Hours(1),
        "--reap-interval");
  Check(config.reap_batch >= 1 && config.reap_batch <= 10'000, "--reap-batch");
  Check(config.drain_delay >= absl::ZeroDuration() &&
            config.drain_delay <= absl::Minutes(5),
        "--drain-delay");
}

void Load(absl::string_view input) {
  // libFuzzer learns the word from being compared with; only we may write it.
  if (absl::StrContains(input, kSecret)) return;
  static const File kFile;
  const absl::string_view content_mark = "\nFILE\n";
  const size_t mark = input.find(content_mark);
  if (mark != input.npos) {
    kFile.Write(WithSecret(input.substr(mark + content_mark.size())));
    input = input.substr(0, mark);
  } else {
    kFile.Write("");
  }
  std::vector<std::string> arguments;
  std::vector<std::string> variables;
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    // Neither words nor variables can hold a NUL.
    const std::string word(line.substr(0, line.find('\0')));
    (absl::StartsWith(word, "DEDUPE_") ? variables : arguments).push_back(word);
  }

  ForgetSettings();
  const OwnEnvironment environment(PrepareVariables(variables, kFile));
  const auto config = LoadConfig(PrepareArguments(arguments, kFile));
  if (config.ok()) {
    CheckLoaded(*config);
    return;
  }
  Check(absl::IsInvalidArgument(config.status()),
        "settings are refused as such");
  Check(!absl::StrContains(config.status().message(), kSecret),
        "no message tells the database's password");
}

}  // namespace
}  // namespace dedupe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const size_t kSettingsBytes = dedupe::SettingsHelp().size();
  dedupe::testing::Check(kSettingsBytes > 0, "the settings are described");
  dedupe::Load({reinterpret_cast<const char*>(data), size});
  return 0;
}
