// A project outside the tree, as README shows it: the library is installed, its
// files are written as they stand there, and it builds and runs against a
// server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/end_to_end/deployment.h"

namespace dedupe::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kBuildLimit = absl::Minutes(4);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The code block of README that follows this line.
std::string BlockAfter(const std::string& line) {
  const std::string readme = ReadFile(SourceDirectory() + "/README.md");
  const size_t heading = readme.find(line);
  EXPECT_NE(heading, std::string::npos) << line;
  const size_t begin = readme.find('\n', readme.find("\n```", heading) + 1) + 1;
  return readme.substr(begin, readme.find("\n```", begin) + 1 - begin);
}

void Execute(const std::vector<std::string>& argv) {
  const ProcessResult result = RunProcess(argv, {}, kBuildLimit);
  ASSERT_EQ(result.exit_code, 0)
      << argv[0] << " " << argv[1] << "\n"
      << result.standard_output << result.standard_error;
}

class InstallTest : public EndToEndTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(project_);
    Execute({"cmake", "--install", BuildDirectory(), "--prefix", prefix_,
             "--component", "client"});
  }

  // What it prints when it is run with this key.
  std::string Charge(const std::string& program, const std::string& key) {
    const ProcessResult result =
        RunProcess({program, Shared().server().address(), key});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.standard_output;
  }

  // lib, or with the machine's name below it.
  std::string PkgConfigFolder() const {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(prefix_)) {
      if (entry.path().filename() == "dedupe-client.pc") {
        return entry.path().parent_path();
      }
    }
    ADD_FAILURE() << "there is no dedupe-client.pc";
    return {};
  }

  const std::string prefix_ = ScratchDirectory() + "/prefix";
  const std::string project_ = ScratchDirectory() + "/shop";
};

TEST_F(InstallTest, ProjectOfReadmeBuildsAndRuns) {
  const std::string cmake = BlockAfter("`CMakeLists.txt`:");
  const std::string source = BlockAfter("`charge.cc`:");
  std::ofstream(project_ + "/CMakeLists.txt") << cmake;
  std::ofstream(project_ + "/charge.cc") << source;
  const std::string build = project_ + "/build";
  Execute({"cmake", "-S", project_, "-B", build,
           absl::StrCat("-DCMAKE_PREFIX_PATH=", prefix_)});
  Execute({"cmake", "--build", build});
  EXPECT_THAT(Charge(build + "/charge", "key-1"), HasSubstr("charged now"));
  EXPECT_THAT(Charge(build + "/charge", "key-1"), HasSubstr("charged before"));
}

TEST_F(InstallTest, PkgConfigIsEnough) {
  const std::string source = project_ + "/charge.cc";
  std::ofstream(source) << BlockAfter("`charge.cc`:");
  const std::string program = project_ + "/charge";
  Execute({"sh", "-c",
           absl::StrCat("c++ -o ", program, " ", source,
                        " $(PKG_CONFIG_PATH=", PkgConfigFolder(),
                        " pkg-config --cflags --libs dedupe-client)")});
  EXPECT_THAT(Charge(program, "key-2"), HasSubstr("charged now"));
}

// Each part by itself, and no file of one in another's way.
TEST_F(InstallTest, PartsAreFoundByThemselves) {
  std::ofstream(project_ + "/CMakeLists.txt") << R"(
cmake_minimum_required(VERSION 3.25)
project(parts CXX)
find_package(dedupe REQUIRED COMPONENTS keys receipts)
add_executable(parts parts.cc)
target_link_libraries(parts PRIVATE dedupe::keys dedupe::receipts)
if(TARGET dedupe::client)
  message(FATAL_ERROR "the client was not asked for")
endif()
)";
  std::ofstream(project_ + "/parts.cc") << R"(
#include <iostream>

#include "dedupe/fingerprint.h"
#include "dedupe/http.h"
#include "dedupe/journal.h"
#include "dedupe/key.h"
#include "dedupe/receipts.h"

int main(int argc, char**) {
  if (argc > 9) dedupe::client::Journal::Open("unused").status().IgnoreError();
  auto* receipt = &dedupe::client::CommitWithReceipt;
  std::cout << dedupe::client::NewKey().size() << (receipt != nullptr) << "\n";
}
)";
  const std::string build = project_ + "/parts-build";
  Execute({"cmake", "-S", project_, "-B", build,
           absl::StrCat("-DCMAKE_PREFIX_PATH=", prefix_)});
  Execute({"cmake", "--build", build});
  EXPECT_EQ(RunProcess({build + "/parts"}).standard_output, "361\n");
  EXPECT_TRUE(
      std::filesystem::exists(prefix_ + "/share/dedupe/receipts.up.sql"));
}

}  // namespace
}  // namespace dedupe::testing
