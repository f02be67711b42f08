// Child processes for tests: started, watched, ended by their process id.
#ifndef DEDUPE_TESTS_SUPPORT_PROCESS_H_
#define DEDUPE_TESTS_SUPPORT_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dedupe::testing {

struct ProcessResult {
  // Of exit(); 128 + the signal's number if a signal ended it.
  int exit_code = -1;
  std::string standard_output;
  std::string standard_error;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// Runs a command to its end and returns what it printed. argv[0] is looked up
// in PATH. Kills it after the time limit (exit_code is then 137).
ProcessResult RunProcess(const std::vector<std::string>& argv,
                         const Environment& environment = {},
                         absl::Duration limit = absl::Seconds(60));

// A process in the background, whose output goes to a file. Killed and reaped
// by the destructor.
class Process {
 public:
  Process(const std::vector<std::string>& argv, const Environment& environment,
          std::string output_path);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Everything printed so far, on both streams.
  std::string Output() const;
  bool WaitForOutput(absl::string_view text,
                     absl::Duration limit = absl::Seconds(20)) const;
  void Signal(int signal) const;
  // The exit code as in ProcessResult; -1 if it still runs after the limit.
  int Wait(absl::Duration limit = absl::Seconds(30));
  bool running();

 private:
  pid_t pid_;
  int exit_code_ = -1;
  bool reaped_ = false;
  std::string output_path_;
};

// Whether PATH has it.
bool HasProgram(const std::string& name);

// A folder for the files of this test program, removed when it ends.
const std::string& ScratchDirectory();

// Of the build and of the sources; from the environment that ctest sets.
std::string BuildDirectory();
std::string SourceDirectory();

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_PROCESS_H_
