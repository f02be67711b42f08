// The real program and its command line: commands, help, exit codes, and which
// stream says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/app/config.h"
#include "server/app/settings.h"
#include "tests/support/process.h"
#include "tests/support/server_process.h"

namespace dedupe {
namespace {

using ::dedupe::testing::DedupeBinary;
using ::dedupe::testing::Environment;
using ::dedupe::testing::ProcessResult;
using ::dedupe::testing::RunProcess;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr int kUsage = 2;

ProcessResult Dedupe(std::vector<std::string> arguments,
                     const Environment& environment = {}) {
  arguments.insert(arguments.begin(), DedupeBinary());
  return RunProcess(arguments, environment);
}

TEST(CommandLineTest, HelpGoesToStandardOutput) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"help"},
                                             {"--help"},
                                             {"-h"},
                                             {"serve", "--help"},
                                             {"migrate", "-h"}}) {
    const ProcessResult result = Dedupe(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.standard_output, HasSubstr("dedupe serve"));
    EXPECT_THAT(result.standard_output, HasSubstr("dedupe migrate"));
    EXPECT_THAT(result.standard_error, IsEmpty());
  }
}

TEST(CommandLineTest, HelpShowsEverySetting) {
  EXPECT_THAT(Dedupe({"--help"}).standard_output, HasSubstr(SettingsHelp()));
}

TEST(CommandLineTest, NothingIsAMistake) {
  const ProcessResult result = Dedupe({});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.standard_output, IsEmpty());
  EXPECT_THAT(result.standard_error, HasSubstr("dedupe serve"));
}

TEST(CommandLineTest, VersionIsOneLine) {
  for (const char* argument : {"version", "--version"}) {
    const ProcessResult result = Dedupe({argument});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.standard_output,
                MatchesRegex("dedupe [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  }
}

TEST(CommandLineTest, AnUnknownCommandIsAMistake) {
  const ProcessResult result = Dedupe({"sevre"});
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.standard_error, HasSubstr("\"sevre\""));
  EXPECT_THAT(result.standard_error, HasSubstr("dedupe help"));
}

TEST(CommandLineTest, AWrongSettingIsAMistakeOfOneLine) {
  for (const char* command : {"serve", "migrate"}) {
    const ProcessResult result = Dedupe(
        {command, "--batch-max=0"}, {{"DEDUPE_DATABASE_URL", "dbname=dedupe"}});
    EXPECT_EQ(result.exit_code, kUsage);
    EXPECT_THAT(result.standard_error,
                MatchesRegex("dedupe: --batch-max \\(DEDUPE_BATCH_MAX\\) is "
                             "\"0\", which is out of bounds\\. [^\n]*\n"));
  }
}

TEST(CommandLineTest, WithoutADatabaseNothingBegins) {
  for (const char* command : {"serve", "migrate"}) {
    const ProcessResult result =
        Dedupe({command},
               {{"DEDUPE_DATABASE_URL", ""}, {"DEDUPE_DATABASE_URL_FILE", ""}});
    EXPECT_EQ(result.exit_code, kUsage);
    EXPECT_THAT(result.standard_error,
                StartsWith("dedupe: no database is named"));
  }
}

// A mistake of the surroundings, not of the command line.
TEST(CommandLineTest, ADatabaseThatIsAwayIsAFailureOfMigrate) {
  const ProcessResult result =
      Dedupe({"migrate"}, {{"DEDUPE_DATABASE_URL", "host=/nowhere"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error, StartsWith("dedupe: "));
}

// What the connection string leaves open libpq takes from its own variables and
// files, as with every other program. Where it looked, its message says.
TEST(CommandLineTest, LibpqsOwnVariablesCount) {
  const ProcessResult result =
      Dedupe({"migrate"}, {{"DEDUPE_DATABASE_URL", "dbname=dedupe"},
                           {"PGHOST", "/nowhere/of-variable"}});
  EXPECT_THAT(result.standard_error, HasSubstr("/nowhere/of-variable"));
}

TEST(CommandLineTest, LibpqsServicesCount) {
  const std::string path = testing::ScratchDirectory() + "/services";
  std::ofstream(path) << "[ledger]\nhost=/nowhere/of-service\ndbname=dedupe\n";
  const ProcessResult result = Dedupe(
      {"migrate"},
      {{"DEDUPE_DATABASE_URL", "service=ledger"}, {"PGSERVICEFILE", path}});
  EXPECT_THAT(result.standard_error, HasSubstr("/nowhere/of-service"));
}

}  // namespace
}  // namespace dedupe
