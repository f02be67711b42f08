// Settings: where they come from, their bounds, and what the operator is told
// when one is wrong.
#include "server/app/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/app/settings.h"
#include "tests/support/process.h"
#include "tests/unit/app/load_in_child.h"

namespace dedupe {
namespace {

using ::dedupe::testing::Environment;
using ::dedupe::testing::Loaded;
using ::dedupe::testing::LoadInChild;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr char kUrl[] = "host=db.internal dbname=dedupe user=dedupe_server";

// With a database, which every Config needs.
Loaded Load(const std::vector<std::string>& arguments,
            Environment environment = {}) {
  environment.emplace_back("DEDUPE_DATABASE_URL", kUrl);
  return LoadInChild(arguments, environment);
}

std::string FlagOf(const std::string& setting) {
  return "--" + absl::StrReplaceAll(setting, {{"_", "-"}});
}
std::string VariableOf(const std::string& setting) {
  return "DEDUPE_" + absl::AsciiStrToUpper(setting);
}

MATCHER(IsLoaded, "is loaded") {
  const auto error = arg.find("error");
  if (error == arg.end()) return true;
  *result_listener << error->second;
  return false;
}

MATCHER_P(IsRefusedWith, text, "is refused with: " + std::string(text)) {
  const auto code = arg.find("code");
  return code != arg.end() && code->second == "INVALID_ARGUMENT" &&
         absl::StrContains(arg.at("error"), text);
}

std::string Scratch(const std::string& name, const std::string& content) {
  std::string path = testing::ScratchDirectory() + "/" + name;
  std::ofstream(path) << content;
  return path;
}

// --- Defaults and sources ----------------------------------------------------

TEST(ConfigTest, DefaultsAreThese) {
  EXPECT_EQ(Load({}), (Loaded{{"listen_address", "127.0.0.1:7733"},
                              {"tls_certificate_file", ""},
                              {"tls_key_file", ""},
                              {"tls_client_ca_file", ""},
                              {"tls_client_crl_file", ""},
                              {"tls_client_certificates", "require"},
                              {"tls_reload_interval", "10s"},
                              {"plaintext_from_network", "false"},
                              {"authentication", "0"},
                              {"connections_max", "0"},
                              {"calls_in_flight_max", "20000"},
                              {"connection_age_max", "10m"},
                              {"connection_age_grace", "1m10s"},
                              {"metrics_address", ""},
                              {"database_url", kUrl},
                              {"connections", "4"},
                              {"batch_max", "128"},
                              {"queue_max", "10000"},
                              {"queue_bytes_max", "67108864"},
                              {"waiters_max", "10000"},
                              {"statement_timeout", "5s"},
                              {"reap_interval", "1s"},
                              {"reap_batch", "500"},
                              {"drain_delay", "5s"},
                              {"drain_grace", "20s"},
                              {"reflection", "true"},
                              {"log_format", "json"},
                              {"log_level", "1"}}));
}

TEST(ConfigTest, AFlagCanBeWrittenInFourWays) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--batch-max=7"},
                                             {"--batch_max=7"},
                                             {"--batch-max", "7"},
                                             {"--batch_max", "7"}}) {
    EXPECT_THAT(Load(arguments), Contains(Pair("batch_max", "7")));
  }
}

TEST(ConfigTest, AVariableSetsTheSame) {
  EXPECT_THAT(Load({}, {{"DEDUPE_BATCH_MAX", "7"}}),
              Contains(Pair("batch_max", "7")));
}

TEST(ConfigTest, TheFlagWins) {
  EXPECT_THAT(Load({"--batch-max=8"}, {{"DEDUPE_BATCH_MAX", "7"}}),
              Contains(Pair("batch_max", "8")));
}

TEST(ConfigTest, TheLastFlagWins) {
  EXPECT_THAT(Load({"--batch-max=8", "--batch-max=9"}),
              Contains(Pair("batch_max", "9")));
}

// A wrong variable is told of even where a flag would win.
TEST(ConfigTest, AWrongVariableIsWrongBesideAFlag) {
  EXPECT_THAT(Load({"--batch-max=8"}, {{"DEDUPE_BATCH_MAX", "many"}}),
              IsRefusedWith("DEDUPE_BATCH_MAX"));
}

TEST(ConfigTest, AValueMayHoldAnEqualsSign) {
  EXPECT_THAT(LoadInChild({"--database-url=host=a dbname=b"}),
              Contains(Pair("database_url", "host=a dbname=b")));
}

TEST(ConfigTest, OtherVariablesAreNoMatter) {
  EXPECT_THAT(Load({}, {{"DEDUPE_NOTHING", "x"}, {"BATCH_MAX", "7"}}),
              Contains(Pair("batch_max", "128")));
}

// --- Bounds ------------------------------------------------------------------

struct BoundCase {
  std::string setting;
  std::string below;
  std::string least;
  std::string most;
  std::string above;
};

class BoundTest : public ::testing::TestWithParam<BoundCase> {
 protected:
  static Loaded LoadAs(const std::string& value) {
    return Load({absl::StrCat(FlagOf(GetParam().setting), "=", value)});
  }
};

TEST_P(BoundTest, LimitsAreAccepted) {
  EXPECT_THAT(LoadAs(GetParam().least), IsLoaded());
  EXPECT_THAT(LoadAs(GetParam().most), IsLoaded());
}

TEST_P(BoundTest, BeyondIsRefused) {
  for (const std::string& value :
       {GetParam().below, GetParam().above, std::string("-1")}) {
    EXPECT_THAT(LoadAs(value), Contains(Pair("code", "INVALID_ARGUMENT")))
        << value;
  }
}

TEST_P(BoundTest, TheMessageSaysWhatIsWrongAndWhatToWrite) {
  const BoundCase& c = GetParam();
  const Loaded loaded = LoadAs(c.above);
  for (const std::string& text :
       {FlagOf(c.setting), VariableOf(c.setting), "\"" + c.above + "\"",
        absl::StrCat(c.least, " to ", c.most)}) {
    EXPECT_THAT(loaded, IsRefusedWith(text));
  }
}

TEST_P(BoundTest, AVariableHasTheSameBounds) {
  EXPECT_THAT(Load({}, {{VariableOf(GetParam().setting), GetParam().above}}),
              IsRefusedWith("out of bounds"));
}

TEST_P(BoundTest, WhatDoesNotParseIsRefused) {
  for (const char* value : {"", "x", "1x", "1,5", "99999999999999999999"}) {
    const Loaded loaded = LoadAs(value);
    EXPECT_THAT(loaded, IsRefusedWith(FlagOf(GetParam().setting)));
    EXPECT_THAT(loaded, IsRefusedWith(VariableOf(GetParam().setting)));
    EXPECT_THAT(loaded, IsRefusedWith("the default is"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BoundTest,
    ::testing::Values(
        BoundCase{"connections", "0", "1", "64", "65"},
        BoundCase{"batch_max", "0", "1", "256", "257"},
        BoundCase{"queue_max", "0", "1", "1000000", "1000001"},
        BoundCase{"queue_mebibytes_max", "0", "1", "16384", "16385"},
        BoundCase{"waiters_max", "-2", "0", "1000000", "1000001"},
        BoundCase{"statement_timeout", "99ms", "100ms", "1m", "1m0.001s"},
        BoundCase{"reap_interval", "9ms", "10ms", "1h", "1h0.001s"},
        BoundCase{"reap_batch", "0", "1", "10000", "10001"},
        BoundCase{"drain_delay", "-1ns", "0s", "5m", "5m0.001s"},
        BoundCase{"drain_grace", "-1ns", "0s", "5m", "5m0.001s"},
        BoundCase{"tls_reload_interval", "99ms", "100ms", "1h", "1h0.001s"},
        BoundCase{"connections_max", "-1", "0", "1000000", "1000001"},
        BoundCase{"calls_in_flight_max", "0", "1", "1000000", "1000001"},
        BoundCase{"connection_age_max", "999ms", "1s", "24h", "24h0.001s"},
        BoundCase{"connection_age_grace", "999ms", "1s", "1h", "1h0.001s"}),
    [](const auto& tested) {
      return absl::StrReplaceAll(tested.param.setting, {{"_", ""}});
    });

TEST(DurationSettingTest, NeedsAUnitAndAnEnd) {
  for (const char* value : {"5", "inf", "5 s", "5sec"}) {
    EXPECT_THAT(Load({absl::StrCat("--drain-delay=", value)}),
                Contains(Key("error")))
        << value;
  }
}

TEST(MebibytesSettingTest, BecomesBytes) {
  EXPECT_THAT(Load({"--queue-mebibytes-max=16384"}),
              Contains(Pair("queue_bytes_max", "17179869184")));
}

// --- Choices -----------------------------------------------------------------

TEST(ReflectionSettingTest, IsTrueOrFalse) {
  for (const auto& [argument, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"--reflection", "true"},
           {"--reflection=true", "true"},
           {"--reflection=1", "true"},
           {"--reflection=false", "false"},
           {"--reflection=0", "false"}}) {
    EXPECT_THAT(Load({argument}), Contains(Pair("reflection", value)))
        << argument;
  }
  EXPECT_THAT(Load({}, {{"DEDUPE_REFLECTION", "no"}}),
              Contains(Pair("reflection", "false")));
  EXPECT_THAT(Load({"--reflection=perhaps"}),
              IsRefusedWith("--reflection (DEDUPE_REFLECTION)"));
}

// It takes no word after it, as the others do.
TEST(ReflectionSettingTest, AloneDoesNotSwallowTheNextSetting) {
  const Loaded loaded = Load({"--reflection", "--batch-max=7"});
  EXPECT_THAT(loaded, Contains(Pair("reflection", "true")));
  EXPECT_THAT(loaded, Contains(Pair("batch_max", "7")));
}

TEST(LogSettingTest, FormatsAndLevelsHaveNames) {
  EXPECT_THAT(Load({"--log-format=text"}),
              Contains(Pair("log_format", "text")));
  int number = 0;
  for (const char* level : {"debug", "info", "warning", "error"}) {
    EXPECT_THAT(Load({absl::StrCat("--log-level=", level)}),
                Contains(Pair("log_level", absl::StrCat(number++))));
  }
}

TEST(LogSettingTest, OtherNamesAreRefusedWithTheRightOnes) {
  for (const char* value : {"", "JSON", "xml"}) {
    EXPECT_THAT(Load({absl::StrCat("--log-format=", value)}),
                IsRefusedWith("json or text"));
  }
  for (const char* value : {"", "INFO", "trace", "1"}) {
    EXPECT_THAT(Load({absl::StrCat("--log-level=", value)}),
                IsRefusedWith("debug, info, warning or error"));
  }
}

// --- Settings that there are not ---------------------------------------------

TEST(UnknownSettingTest, IsRefusedByName) {
  EXPECT_THAT(Load({"--batch-maximum=7"}), IsRefusedWith("--batch-maximum"));
  EXPECT_THAT(Load({"--batch-maximum=7"}), IsRefusedWith("--help"));
  for (const char* argument :
       {"", "-", "--", "=", "batch-max=7", "-batch-max=7", "--noreflection",
        "--batch-max-=7", "--flagfile=x", "--fromenv=batch_max"}) {
    EXPECT_THAT(Load({argument}), IsRefusedWith("--help")) << argument;
  }
}

TEST(UnknownSettingTest, AMissingValueIsAskedFor) {
  EXPECT_THAT(Load({"--batch-max"}), IsRefusedWith("write --batch-max=VALUE"));
}

// --- The database ------------------------------------------------------------

TEST(DatabaseSettingTest, IsRequired) {
  EXPECT_THAT(LoadInChild({}), IsRefusedWith("DEDUPE_DATABASE_URL=\"host="));
  EXPECT_THAT(LoadInChild({}), IsRefusedWith("no database is named"));
  EXPECT_THAT(LoadInChild({}, {{"DEDUPE_DATABASE_URL", ""}}),
              IsRefusedWith("no database is named"));
}

TEST(DatabaseSettingTest, IsNamedOnce) {
  const std::string path = Scratch("url", kUrl);
  EXPECT_THAT(Load({"--database-url-file=" + path}),
              IsRefusedWith("the database is named twice"));
}

TEST(DatabaseSettingTest, BothFormsAreAccepted) {
  for (const std::string url :
       {"host=db.internal dbname=dedupe", "dbname=dedupe",
        "postgresql://dedupe_server@db.internal/dedupe",
        "postgres://u:p%40ss@[::1]:5432/d?sslmode=require",
        "postgresql://u@a:5432,b:5433/d", "host=a,b port=5432,5433",
        "host=/var/run/postgresql", "postgresql:///dedupe",
        "postgresql://%2Fvar%2Frun%2Fpostgresql/dedupe",
        "host=@abstract dbname=dedupe"}) {
    EXPECT_THAT(LoadInChild({}, {{"DEDUPE_DATABASE_URL", url}}),
                Contains(Pair("database_url", url)));
  }
}

TEST(DatabaseSettingTest, ComesFromAFileWithoutItsLineEnd) {
  for (const char* end : {"", "\n", "\r\n", " \n\n"}) {
    const std::string path = Scratch("url", absl::StrCat(kUrl, end));
    EXPECT_THAT(LoadInChild({"--database-url-file=" + path}),
                Contains(Pair("database_url", kUrl)));
    EXPECT_THAT(LoadInChild({}, {{"DEDUPE_DATABASE_URL_FILE", path}}),
                Contains(Pair("database_url", kUrl)));
  }
}

TEST(DatabaseSettingTest, AFileThatCannotBeReadIsNamed) {
  const Loaded loaded = LoadInChild({"--database-url-file=/nowhere/url"});
  EXPECT_THAT(loaded, IsRefusedWith("\"/nowhere/url\""));
  EXPECT_THAT(loaded, IsRefusedWith("DEDUPE_DATABASE_URL_FILE"));
}

// An empty connection string used to be accepted: it is that of whatever
// database libpq finds by itself.
TEST(DatabaseSettingTest, AnEmptyFileIsRefused) {
  for (const char* content : {"", "\n", "  \n"}) {
    const std::string path = Scratch("empty", content);
    EXPECT_THAT(LoadInChild({"--database-url-file=" + path}),
                IsRefusedWith("DEDUPE_DATABASE_URL_FILE"));
  }
}

TEST(DatabaseSettingTest, ADirectoryIsRefused) {
  EXPECT_THAT(
      LoadInChild({"--database-url-file=" + testing::ScratchDirectory()}),
      IsRefusedWith("DEDUPE_DATABASE_URL_FILE"));
}

// --- TLS and who is let in ---------------------------------------------------

TEST(TlsSettingsTest, FilesAreTakenAsTheyAre) {
  const Loaded loaded =
      Load({"--tls-certificate-file=/c", "--tls-key-file=/k",
            "--tls-client-ca-file=/a", "--tls-client-crl-file=/r",
            "--tls-client-certificates=optional"});
  EXPECT_THAT(loaded, Contains(Pair("tls_certificate_file", "/c")));
  EXPECT_THAT(loaded, Contains(Pair("tls_key_file", "/k")));
  EXPECT_THAT(loaded, Contains(Pair("tls_client_ca_file", "/a")));
  EXPECT_THAT(loaded, Contains(Pair("tls_client_crl_file", "/r")));
  EXPECT_THAT(loaded, Contains(Pair("tls_client_certificates", "optional")));
}

TEST(TlsSettingsTest, HalfOfThemIsRefused) {
  EXPECT_THAT(Load({"--tls-certificate-file=/c"}),
              IsRefusedWith("DEDUPE_TLS_KEY_FILE"));
  EXPECT_THAT(Load({"--tls-key-file=/k"}),
              IsRefusedWith("DEDUPE_TLS_CERTIFICATE_FILE"));
  EXPECT_THAT(Load({"--tls-client-ca-file=/a"}),
              IsRefusedWith("--tls-certificate-file"));
  EXPECT_THAT(Load({"--tls-certificate-file=/c", "--tls-key-file=/k",
                    "--tls-client-crl-file=/r"}),
              IsRefusedWith("--tls-client-ca-file"));
}

TEST(TlsSettingsTest, ClientCertificatesAreRequiredOrOptional) {
  EXPECT_THAT(Load({"--tls-client-certificates=never"}),
              IsRefusedWith("require or optional"));
}

TEST(AuthenticationSettingTest, IsOneOfThree) {
  for (const auto& [word, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"auto", "0"}, {"required", "1"}, {"none", "2"}}) {
    EXPECT_THAT(Load({"--authentication=" + word}),
                Contains(Pair("authentication", value)));
  }
  EXPECT_THAT(Load({"--authentication=maybe"}),
              IsRefusedWith("DEDUPE_AUTHENTICATION"));
}

// --- Help --------------------------------------------------------------------

// As the source defines them: ABSL_FLAG(type, name, ...).
std::set<std::string> DefinedSettings() {
  std::ifstream file(testing::SourceDirectory() + "/server/app/settings.cc");
  std::stringstream source;
  source << file.rdbuf();
  const std::vector<std::string> parts =
      absl::StrSplit(source.str(), "\nABSL_FLAG(");
  std::set<std::string> settings;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> words =
        absl::StrSplit(parts[i], absl::ByAnyChar(" ,\n"), absl::SkipEmpty());
    settings.insert(words.at(1));
  }
  return settings;
}

TEST(SettingsHelpTest, ShowsEverySettingByBothNames) {
  const std::string help = SettingsHelp();
  const std::set<std::string> settings = DefinedSettings();
  EXPECT_GE(settings.size(), 29u)
      << "is DEDUPE_SOURCE_DIR the root of the sources?";
  for (const std::string& setting : settings) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat("  ", FlagOf(setting), "  ",
                                             VariableOf(setting), "\n")));
  }
}

TEST(SettingsHelpTest, ShowsDefaultsWhereThereAreAny) {
  EXPECT_THAT(SettingsHelp(), HasSubstr("Default: 127.0.0.1:7733."));
  EXPECT_THAT(SettingsHelp(), HasSubstr("Default: 128."));
  EXPECT_THAT(SettingsHelp(), HasSubstr("Default: true."));
  EXPECT_THAT(SettingsHelp(), Not(HasSubstr("Default: .")));
}

}  // namespace
}  // namespace dedupe
