#include "tests/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace dedupe::testing {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kPoll = absl::Milliseconds(5);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

int ExitCode(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                : 128 + WTERMSIG(wait_status);
}

// Only what is safe between fork and exec in a process with threads: the
// arguments and the environment are made beforehand.
pid_t Spawn(const std::vector<std::string>& argv,
            const Environment& environment, const std::string& output_path,
            const std::string& error_path) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  std::vector<std::string> settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view name =
        *absl::StrSplit(*entry, absl::MaxSplits('=', 1)).begin();
    bool replaced = false;
    for (const auto& [key, value] : environment) replaced |= key == name;
    if (!replaced) settings.emplace_back(*entry);
  }
  for (const auto& [key, value] : environment) {
    settings.push_back(absl::StrCat(key, "=", value));
  }
  std::vector<char*> variables;
  variables.reserve(settings.size() + 1);
  for (std::string& setting : settings) variables.push_back(setting.data());
  variables.push_back(nullptr);

  const pid_t pid = fork();
  if (pid != 0) return pid;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int flags = O_WRONLY | O_CREAT | O_APPEND;
  const int input = open("/dev/null", O_RDONLY);
  const int output = open(output_path.c_str(), flags, 0600);
  const int error = error_path == output_path
                        ? output
                        : open(error_path.c_str(), flags, 0600);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  // A helper that inherited a listening socket would keep its port.
  for (int descriptor = 3; descriptor < 1024; ++descriptor) close(descriptor);
  execvpe(arguments[0], arguments.data(), variables.data());
  _exit(127);
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& argv,
                         const Environment& environment, absl::Duration limit) {
  static std::atomic<int> count{0};
  const std::string base = absl::StrCat(ScratchDirectory(), "/run-", ++count);
  const pid_t pid = Spawn(argv, environment, base + ".out", base + ".err");
  const absl::Time until = absl::Now() + limit;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (absl::Now() > until) kill(pid, SIGKILL);
    absl::SleepFor(kPoll);
  }
  ProcessResult result = {ExitCode(status), ReadFile(base + ".out"),
                          ReadFile(base + ".err")};
  fs::remove(base + ".out");
  fs::remove(base + ".err");
  return result;
}

Process::Process(const std::vector<std::string>& argv,
                 const Environment& environment, std::string output_path)
    : pid_(Spawn(argv, environment, output_path, output_path)),
      output_path_(std::move(output_path)) {}

Process::~Process() {
  if (!running()) return;
  Signal(SIGKILL);
  Wait();
}

std::string Process::Output() const { return ReadFile(output_path_); }

bool Process::WaitForOutput(absl::string_view text,
                            absl::Duration limit) const {
  const absl::Time until = absl::Now() + limit;
  while (absl::Now() < until) {
    if (absl::StrContains(Output(), text)) return true;
    absl::SleepFor(kPoll);
  }
  return false;
}

void Process::Signal(int signal) const {
  if (!reaped_) kill(pid_, signal);
}

int Process::Wait(absl::Duration limit) {
  const absl::Time until = absl::Now() + limit;
  while (running()) {
    if (absl::Now() > until) return -1;
    absl::SleepFor(kPoll);
  }
  return exit_code_;
}

bool Process::running() {
  int status = 0;
  if (!reaped_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    reaped_ = true;
    exit_code_ = ExitCode(status);
  }
  return !reaped_;
}

bool HasProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (access(absl::StrCat(folder, "/", name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

const std::string& ScratchDirectory() {
  struct Scratch {
    std::string path;
    Scratch() {
      // Short, because a socket's path has room for 107 bytes.
      std::string pattern = "/tmp/dedupe-test-XXXXXX";
      path = mkdtemp(pattern.data());
      // The postgres user has to pass through it.
      chmod(path.c_str(), 0711);
    }
    ~Scratch() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Scratch kScratch;
  return kScratch.path;
}

std::string BuildDirectory() {
  const char* directory = std::getenv("DEDUPE_BUILD_DIR");
  return directory == nullptr ? "build/release" : directory;
}

std::string SourceDirectory() {
  const char* directory = std::getenv("DEDUPE_SOURCE_DIR");
  return directory == nullptr ? "." : directory;
}

}  // namespace dedupe::testing
