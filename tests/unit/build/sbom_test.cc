// scripts/sbom, run on the program of this build.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/support/process.h"

namespace dedupe {
namespace {

using ::dedupe::testing::BuildDirectory;
using ::dedupe::testing::HasProgram;
using ::dedupe::testing::ProcessResult;
using ::dedupe::testing::RunProcess;
using ::dedupe::testing::ScratchDirectory;
using ::dedupe::testing::SourceDirectory;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class SbomTest : public ::testing::Test {
 protected:
  // Once for all: it looks at every package.
  static void SetUpTestSuite() {
    if (!HasProgram("dpkg-query") || !HasProgram("ninja")) return;
    const std::string file = ScratchDirectory() + "/sbom.cdx.json";
    const ProcessResult result =
        RunProcess({SourceDirectory() + "/scripts/sbom", BuildDirectory(),
                    "server/dedupe", file});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    std::ifstream input(file);
    sbom = new nlohmann::json(
        nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false));
  }
  static void TearDownTestSuite() {
    delete sbom;
    sbom = nullptr;
  }

  void SetUp() override {
    if (sbom == nullptr) GTEST_SKIP() << "needs dpkg and ninja";
    ASSERT_FALSE(sbom->is_discarded());
  }

  static const nlohmann::json& document() { return *sbom; }

  // Of all components, or of those that come from this source package.
  static std::set<std::string> Refs(const std::string& source = "") {
    std::set<std::string> refs;
    for (const nlohmann::json& component : document().at("components")) {
      for (const nlohmann::json& property : component.at("properties")) {
        if (source.empty() || (property.at("name") == "dedupe:source-package" &&
                               property.at("value") == source)) {
          refs.insert(component.at("bom-ref"));
        }
      }
    }
    return refs;
  }

 private:
  inline static nlohmann::json* sbom = nullptr;
};

// What the loader loads, by the paths that it uses.
std::set<std::string> LoadedObjects() {
  std::set<std::string> objects;
  const std::string output =
      RunProcess({"ldd", BuildDirectory() + "/server/dedupe"}).standard_output;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    for (const absl::string_view word :
         absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
      if (absl::StartsWith(word, "/")) objects.emplace(word);
    }
  }
  return objects;
}

TEST_F(SbomTest, IsCycloneDx) {
  EXPECT_EQ(document().at("bomFormat"), "CycloneDX");
  EXPECT_EQ(document().at("specVersion"), "1.5");
  EXPECT_EQ(document().at("metadata").at("component").at("name"), "dedupe");
}

TEST_F(SbomTest, HoldsEveryObjectThatIsLoaded) {
  std::set<std::string> named;
  for (const nlohmann::json& component : document().at("components")) {
    for (const nlohmann::json& file :
         component.value("components", nlohmann::json::array())) {
      named.insert(file.at("name"));
      EXPECT_EQ(file.at("hashes").at(0).at("content").get<std::string>().size(),
                64u);
    }
  }
  const std::set<std::string> loaded = LoadedObjects();
  ASSERT_THAT(loaded, Not(IsEmpty()));
  EXPECT_THAT(named, IsSupersetOf(loaded));
}

TEST_F(SbomTest, NamesEachPackageWithItsVersion) {
  for (const nlohmann::json& component : document().at("components")) {
    EXPECT_TRUE(absl::StartsWith(component.at("purl").get<std::string>(),
                                 "pkg:deb/debian/"))
        << component.at("purl");
    EXPECT_NE(component.at("version"), "") << component.at("name");
  }
}

TEST_F(SbomTest, HoldsWhatIsOnlyCompiledIn) {
  EXPECT_THAT(Refs("nlohmann-json3"), Not(IsEmpty()));
}

TEST_F(SbomTest, ProgramDependsOnEveryPart) {
  std::set<std::string> parts;
  for (const nlohmann::json& ref :
       document().at("dependencies").at(0).at("dependsOn")) {
    parts.insert(ref);
  }
  EXPECT_EQ(parts, Refs());
}

TEST_F(SbomTest, SaysWhatIsKnownAgainstGrpc) {
  const std::set<std::string> grpc = Refs("grpc");
  ASSERT_THAT(grpc, Not(IsEmpty()));
  std::set<std::string> known;
  for (const nlohmann::json& entry : document().at("vulnerabilities")) {
    known.insert(entry.at("id"));
    EXPECT_NE(entry.at("analysis").at("state"), "") << entry.at("id");
    EXPECT_NE(entry.at("analysis").at("detail"), "") << entry.at("id");
    std::set<std::string> affected;
    for (const nlohmann::json& ref : entry.at("affects")) {
      affected.insert(ref.at("ref"));
    }
    EXPECT_EQ(affected, grpc) << entry.at("id");
  }
  EXPECT_THAT(known, IsSupersetOf({"CVE-2023-1428", "CVE-2023-4785",
                                   "CVE-2023-32731", "CVE-2023-32732",
                                   "CVE-2023-33953", "CVE-2023-44487"}));
}

}  // namespace
}  // namespace dedupe
