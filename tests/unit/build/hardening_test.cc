// What the linker made of the program: the defences that its compiler and
// linker were told to build in are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/process.h"

namespace dedupe {
namespace {

using ::dedupe::testing::BuildDirectory;
using ::dedupe::testing::ProcessResult;
using ::dedupe::testing::RunProcess;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class HardeningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (DEDUPE_IS_HARDENED == 0) {
      GTEST_SKIP() << "a build without optimization, or with sanitizers";
    }
  }

  static std::string ReadElf(const std::string& option,
                             const std::string& file = "server/dedupe") {
    const ProcessResult result =
        RunProcess({"readelf", "--wide", option, BuildDirectory() + "/" + file},
                   {{"LC_ALL", "C"}});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.standard_output;
  }
};

TEST_F(HardeningTest, ProgramIsPositionIndependent) {
  EXPECT_THAT(ReadElf("--file-header"), ContainsRegex("Type: +DYN"));
  EXPECT_THAT(ReadElf("--dynamic"), ContainsRegex("FLAGS_1.*PIE"));
}

TEST_F(HardeningTest, AddressesOfFunctionsAreBoundAtOnceAndReadOnly) {
  EXPECT_THAT(ReadElf("--program-headers"), HasSubstr("GNU_RELRO"));
  EXPECT_THAT(ReadElf("--dynamic"), HasSubstr("BIND_NOW"));
}

TEST_F(HardeningTest, NoStackOrSegmentIsWritableAndExecutable) {
  const std::string segments = ReadElf("--program-headers");
  EXPECT_THAT(segments, ContainsRegex("GNU_STACK .* RW +0x"));
  EXPECT_THAT(segments, Not(HasSubstr("RWE")));
}

TEST_F(HardeningTest, StacksAreGuarded) {
  EXPECT_THAT(ReadElf("--dyn-syms"), HasSubstr("__stack_chk_fail"));
}

TEST_F(HardeningTest, CopiesAreChecked) {
  EXPECT_THAT(ReadElf("--dyn-syms"), ContainsRegex("__mem(cpy|set|move)_chk"));
}

// A path of the builder's machine would let whoever can write there in.
TEST_F(HardeningTest, LibrariesAreFoundInTheSystemsPlacesAlone) {
  const std::string dynamic = ReadElf("--dynamic");
  EXPECT_THAT(dynamic, Not(HasSubstr("(RPATH)")));
  EXPECT_THAT(dynamic, Not(HasSubstr("(RUNPATH)")));
}

// Of our objects only: Debian 12 builds its start files without, and the linker
// gives the program as a whole what all of its parts have.
TEST_F(HardeningTest, BranchesHaveTheirLandingPads) {
#if defined(__x86_64__)
  EXPECT_THAT(ReadElf("--notes", "server/CMakeFiles/dedupe.dir/main.cc.o"),
              HasSubstr("IBT, SHSTK"));
#else
  GTEST_SKIP() << "of x86-64 alone";
#endif
}

}  // namespace
}  // namespace dedupe
