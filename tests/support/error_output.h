// Reads what this process writes to standard error, such as its log.
#ifndef DEDUPE_TESTS_SUPPORT_ERROR_OUTPUT_H_
#define DEDUPE_TESTS_SUPPORT_ERROR_OUTPUT_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace dedupe::testing {

// What is written to standard error while it lives.
class ErrorOutput {
 public:
  ErrorOutput() : saved_(dup(STDERR_FILENO)), file_(std::tmpfile()) {
    std::fflush(stderr);
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~ErrorOutput() {
    std::fflush(stderr);
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    std::fclose(file_);
  }
  ErrorOutput(const ErrorOutput&) = delete;
  ErrorOutput& operator=(const ErrorOutput&) = delete;

  std::string text() const {
    std::fflush(stderr);
    std::string text(static_cast<size_t>(lseek(fileno(file_), 0, SEEK_END)),
                     '\0');
    const ssize_t size = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(size));
    return text;
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines = absl::StrSplit(text(), '\n');
    EXPECT_EQ(lines.back(), "") << "the last line has no end";
    lines.pop_back();
    return lines;
  }

 private:
  const int saved_;
  FILE* const file_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_ERROR_OUTPUT_H_
