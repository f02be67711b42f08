// A connection string may hold a password, and nobody may read it in a message:
// neither when it is right nor when it is wrong, wherever it was written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/process.h"
#include "tests/support/server_process.h"
#include "tests/unit/app/load_in_child.h"

namespace dedupe {
namespace {

using ::dedupe::testing::DedupeBinary;
using ::dedupe::testing::Environment;
using ::dedupe::testing::Loaded;
using ::dedupe::testing::LoadInChild;
using ::dedupe::testing::ProcessResult;
using ::dedupe::testing::RunProcess;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// The password is hunter2, or holds it.
constexpr const char* kMalformed[] = {
    "hunter2",
    "host=db password=hunter2 = x",
    "host=db password='hunter2",
    "host=db password=my hunter2",
    "passwort=hunter2 host=db",
    "postgresql://u:hunter2@db:5432/d?nonsense=1",
    "postgresql://u:%zzhunter2@db/d",
    "postgresql://u:hunter2@[::1/d",
    // The password holds an @, a / or a : that should have been escaped. libpq
    // takes what follows for the host or the port, and names those in its
    // messages.
    "postgresql://u:p@hunter2@db.internal/d",
    "postgresql://u:p@hunter2@db.internal:5432/d",
    "postgresql://u:5432/hunter2@db.internal/d",
    "postgresql://u:hunter2/x@db.internal/d",
    // The host is missing.
    "postgresql://u:hunter2/d",
    "host=db port=hunter2",
};

std::string WriteFile(const std::string& content) {
  std::string path = testing::ScratchDirectory() + "/secret-url";
  std::ofstream(path) << content;
  return path;
}

class MalformedUrlTest : public ::testing::TestWithParam<const char*> {
 protected:
  static void ExpectRefusedInSilence(const Loaded& loaded) {
    EXPECT_THAT(loaded, Contains(Pair("code", "INVALID_ARGUMENT")));
    for (const auto& [name, value] : loaded) {
      if (name == "error") {
        EXPECT_THAT(value, Not(HasSubstr("hunter2")));
      }
    }
  }
};

TEST_P(MalformedUrlTest, AsAVariableIsRefusedInSilence) {
  ExpectRefusedInSilence(
      LoadInChild({}, {{"DEDUPE_DATABASE_URL", GetParam()}}));
}

TEST_P(MalformedUrlTest, AsAFlagIsRefusedInSilence) {
  ExpectRefusedInSilence(LoadInChild({"--database-url", GetParam()}));
}

TEST_P(MalformedUrlTest, InAFileIsRefusedInSilence) {
  ExpectRefusedInSilence(
      LoadInChild({"--database-url-file=" + WriteFile(GetParam())}));
}

INSTANTIATE_TEST_SUITE_P(All, MalformedUrlTest,
                         ::testing::ValuesIn(kMalformed));

// --- In the wrong place ------------------------------------------------------

constexpr char kUrl[] = "postgresql://u:hunter2@db.internal/d";

TEST(MisplacedUrlTest, WithoutItsFlagIsNotShown) {
  const Loaded loaded = LoadInChild({kUrl});
  EXPECT_THAT(loaded.at("error"), Not(HasSubstr("hunter2")));
}

TEST(MisplacedUrlTest, WithAQueryWithoutItsFlagIsNotShown) {
  const Loaded loaded = LoadInChild({absl::StrCat(kUrl, "?sslmode=require")});
  EXPECT_THAT(loaded.at("error"), Not(HasSubstr("hunter2")));
}

TEST(MisplacedUrlTest, AsTheNameOfItsFileIsNotShown) {
  for (const char* value : {kUrl, "host=db password=hunter2"}) {
    const Loaded loaded =
        LoadInChild({absl::StrCat("--database-url-file=", value)});
    EXPECT_THAT(loaded.at("error"), Not(HasSubstr("hunter2")));
  }
}

TEST(MisplacedUrlTest, InsteadOfACommandIsNotShown) {
  const ProcessResult result = RunProcess({DedupeBinary(), kUrl});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error, Not(HasSubstr("hunter2")));
}

TEST(MisplacedUrlTest, AfterAMisspelledFlagIsNotShown) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {absl::StrCat("--databse-url=", kUrl)}, {"--databse-url", kUrl}}) {
    const Loaded loaded = LoadInChild(arguments);
    EXPECT_THAT(loaded.at("error"), HasSubstr("--databse-url"));
    EXPECT_THAT(loaded.at("error"), Not(HasSubstr("hunter2")));
  }
}

TEST(MisplacedUrlTest, NamedTwiceIsNotShown) {
  const Loaded loaded = LoadInChild(
      {"--database-url", kUrl, "--database-url-file=" + WriteFile(kUrl)});
  EXPECT_THAT(loaded.at("error"), HasSubstr("twice"));
  EXPECT_THAT(loaded.at("error"), Not(HasSubstr("hunter2")));
}

// Another setting is wrong.
TEST(MisplacedUrlTest, BesideAnotherMistakeIsNotShown) {
  const Loaded loaded = LoadInChild({"--batch-max=0", "--database-url", kUrl});
  EXPECT_THAT(loaded.at("error"), HasSubstr("--batch-max"));
  EXPECT_THAT(loaded.at("error"), Not(HasSubstr("hunter2")));
}

// --- Of a database that is away ----------------------------------------------

// A socket's directory that is not there, so that no network is asked.
TEST(ConnectingTest, AFailureDoesNotShowThePassword) {
  for (const std::string& url :
       {absl::StrCat("host=", testing::ScratchDirectory(),
                     "/none user=u password=hunter2 dbname=d"),
        std::string("host=/nowhere user=u password='hunter2 x' dbname=d")}) {
    const ProcessResult result =
        RunProcess({DedupeBinary(), "migrate"}, {{"DEDUPE_DATABASE_URL", url}});
    EXPECT_EQ(result.exit_code, 1);
    // It says where it looked.
    EXPECT_THAT(result.standard_error, HasSubstr(".s.PGSQL.5432"));
    EXPECT_THAT(result.standard_error, Not(HasSubstr("hunter2")));
    EXPECT_THAT(result.standard_output, Not(HasSubstr("hunter2")));
  }
}

}  // namespace
}  // namespace dedupe
