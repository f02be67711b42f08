// A journal in a folder of its own, under a clock that stands still.
#ifndef DEDUPE_TESTS_JOURNAL_JOURNAL_FIXTURE_H_
#define DEDUPE_TESTS_JOURNAL_JOURNAL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "dedupe/journal.h"
#include "tests/support/process.h"

namespace dedupe::client {

inline absl::StatusCode CodeOf(const absl::Status& status) {
  return status.code();
}
template <typename Value>
absl::StatusCode CodeOf(const absl::StatusOr<Value>& answer) {
  return answer.status().code();
}
MATCHER_P(HasCode, code, absl::StatusCodeToString(code)) {
  *result_listener << absl::StatusCodeToString(CodeOf(arg));
  return CodeOf(arg) == code;
}
MATCHER(IsOk, "") { return CodeOf(arg) == absl::StatusCode::kOk; }

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

inline void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

inline ino_t InodeOf(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

class JournalTest : public ::testing::Test {
 protected:
  // In memory where the machine has such a folder: thousands of files are
  // opened and synced. What the syncs are for, strace and the crash test see.
  JournalTest() {
    const bool in_memory = access("/dev/shm", W_OK) == 0;
    std::string pattern =
        absl::StrCat(in_memory ? "/dev/shm" : testing::ScratchDirectory(),
                     "/dedupe-journal-XXXXXX");
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/intents";
  }
  ~JournalTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  JournalOptions Options() {
    JournalOptions options;
    options.now = [this] { return now_; };
    return options;
  }
  absl::StatusOr<std::unique_ptr<Journal>> TryOpen() {
    return Journal::Open(path_, Options());
  }
  // Ends the program if that fails.
  std::unique_ptr<Journal> Open() { return Open(Options()); }
  std::unique_ptr<Journal> Open(const JournalOptions& options) {
    return *Journal::Open(path_, options);
  }
  // The same, with a journal that is gone again afterwards.
  Intent IntendOnce(const std::string& vessel) {
    return *Open()->Intend(vessel);
  }

  std::string folder_;
  std::string path_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
};

}  // namespace dedupe::client

#endif  // DEDUPE_TESTS_JOURNAL_JOURNAL_FIXTURE_H_
