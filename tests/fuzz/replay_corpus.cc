// Passes every file of corpus/NAME through the fuzz target that this is linked
// with, which aborts where a rule is broken. Sanitizers, where built with them,
// look on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace dedupe {
namespace {

namespace fs = std::filesystem;

fs::path Corpus() {
  const char* sources = std::getenv("DEDUPE_SOURCE_DIR");
  return fs::path(sources == nullptr ? "." : sources) / "tests" / "fuzz" /
         "corpus" / DEDUPE_FUZZ_NAME;
}

std::vector<fs::path> Inputs() {
  std::vector<fs::path> inputs;
  for (const fs::directory_entry& entry : fs::directory_iterator(Corpus())) {
    inputs.push_back(entry.path());
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

std::string Content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

TEST(FuzzCorpusTest, EveryInputIsTaken) {
  const std::vector<fs::path> inputs = Inputs();
  ASSERT_THAT(inputs, ::testing::Not(::testing::IsEmpty()));
  for (const fs::path& input : inputs) {
    // Seen only if it aborts: the last one is to blame.
    std::fprintf(stderr, "%s\n", input.filename().c_str());
    Feed(Content(input));
  }
}

// The inputs that fuzzers begin with, and what one lost byte makes of good
// ones.
TEST(FuzzCorpusTest, EveryBeginningOfAnInputIsTaken) {
  Feed("");
  for (const fs::path& input : Inputs()) {
    const std::string content = Content(input);
    const size_t step = content.size() / 64 + 1;
    for (size_t size = 0; size < content.size(); size += step) {
      Feed(content.substr(0, size));
    }
  }
}

}  // namespace
}  // namespace dedupe
