// Keys that nobody has had before: from the kernel, whatever the processes.
#include "dedupe/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace dedupe::client {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

const std::regex& Uuid4() {
  static const std::regex* const kPattern = new std::regex(
      "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  return *kPattern;
}

MATCHER(IsUuid4, "is a UUIDv4 in lower case") {
  return std::regex_match(std::string(arg), Uuid4());
}

// A pipe whose ends close by themselves.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Pipe() {
    CloseReading();
    CloseWriting();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void CloseReading() { Close(ends_[0]); }
  void CloseWriting() { Close(ends_[1]); }

  void Write(absl::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = write(ends_[1], text.data(), text.size());
      if (count <= 0) _exit(1);
      text.remove_prefix(static_cast<size_t>(count));
    }
  }
  // Until every writer has closed its end.
  std::string ReadAll() const {
    std::string text;
    std::array<char, 4096> buffer;
    ssize_t count = 0;
    while ((count = read(ends_[0], buffer.data(), buffer.size())) > 0) {
      text.append(buffer.data(), static_cast<size_t>(count));
    }
    return text;
  }

 private:
  static void Close(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }

  std::array<int, 2> ends_ = {-1, -1};
};

std::string Mint(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += NewKey() + "\n";
  return lines;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

void WaitForSuccess(const std::vector<pid_t>& children) {
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

// Keys of processes that wait for each other before they mint.
std::vector<std::string> MintInProcesses(int processes, int keys_each) {
  Pipe gate;
  Pipe results;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      gate.CloseWriting();
      gate.ReadAll();
      results.Write(Mint(keys_each));
      _exit(0);
    }
    children.push_back(child);
  }
  gate.CloseWriting();
  results.CloseWriting();
  std::vector<std::string> keys = Lines(results.ReadAll());
  WaitForSuccess(children);
  return keys;
}

TEST(NewKeyTest, IsAUuid4) { EXPECT_THAT(Lines(Mint(1000)), Each(IsUuid4())); }

TEST(NewKeyTest, EveryBitButTheSixFixedOnesVaries) {
  std::set<char> seen[36];
  for (const std::string& key : Lines(Mint(1000))) {
    for (size_t i = 0; i < key.size(); ++i) seen[i].insert(key[i]);
  }
  for (const size_t i : {8U, 13U, 14U, 18U, 23U})
    EXPECT_THAT(seen[i], SizeIs(1));
  EXPECT_THAT(seen[19], SizeIs(4));
  for (const size_t i : {0U, 7U, 9U, 15U, 17U, 20U, 22U, 24U, 35U}) {
    EXPECT_THAT(seen[i], SizeIs(16)) << "digit " << i;
  }
}

// Generators seeded alike, such as by the clock, give equal keys.
TEST(NewKeyTest, ProcessesThatStartTogetherShareNoKey) {
  constexpr int kBatches = 20;
  constexpr int kProcesses = 100;
  constexpr int kKeysEach = 10;
  std::set<std::string> keys;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto minted = MintInProcesses(kProcesses, kKeysEach);
    EXPECT_THAT(minted, Each(IsUuid4()));
    keys.insert(minted.begin(), minted.end());
  }
  EXPECT_THAT(keys, SizeIs(kBatches * kProcesses * kKeysEach));
}

// A generator in memory is copied by fork and goes on the same on both sides.
TEST(NewKeyTest, ParentAndChildShareNoKeyAfterFork) {
  constexpr int kKeysEach = 1000;
  const std::string before = NewKey();
  Pipe results;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    results.Write(Mint(kKeysEach));
    _exit(0);
  }
  results.CloseWriting();
  const auto mine = Lines(Mint(kKeysEach));
  const auto theirs = Lines(results.ReadAll());
  WaitForSuccess({child});

  std::set<std::string> keys(mine.begin(), mine.end());
  keys.insert(theirs.begin(), theirs.end());
  keys.insert(before);
  EXPECT_THAT(theirs, SizeIs(kKeysEach));
  EXPECT_THAT(keys, SizeIs(2 * kKeysEach + 1));
}

TEST(NewKeyTest, ThreadsShareNoKey) {
  constexpr int kThreads = 8;
  constexpr int kKeysEach = 1000;
  std::vector<std::string> minted(kThreads);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (std::string& lines : minted) {
      threads.emplace_back([&lines] { lines = Mint(kKeysEach); });
    }
  }
  std::set<std::string> keys;
  for (const std::string& lines : minted) {
    const auto split = Lines(lines);
    keys.insert(split.begin(), split.end());
  }
  EXPECT_THAT(keys, SizeIs(kThreads * kKeysEach));
}

TEST(NewAttemptIdTest, IsAUuid4OfItsOwnThatTheServerTakes) {
  const std::string id = NewAttemptId();
  EXPECT_THAT(id, IsUuid4());
  EXPECT_NE(id, NewAttemptId());
  EXPECT_LE(id.size(), kAttemptIdBytesMax);
}

}  // namespace
}  // namespace dedupe::client
