// The real program's commands for principals and tokens, on a real PostgreSQL:
// what they do, exit codes, and which stream says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/service/token.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"
#include "tests/support/server_process.h"

namespace dedupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kFailure = 1;
constexpr int kUsage = 2;

class AccessCommandLineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    database = PostgresCluster::Shared().CreateMigratedDatabase();
  }

  AccessCommandLineTest() : url_(PostgresCluster::Shared().Url(database)) {
    Sql(url_, "TRUNCATE dedupe.principal CASCADE");
  }

  ProcessResult Dedupe(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), DedupeBinary());
    return RunProcess(arguments, {{"DEDUPE_DATABASE_URL", url_}});
  }

  // One that succeeds; what it prints.
  std::string Output(const std::vector<std::string>& arguments) const {
    const ProcessResult result = Dedupe(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.standard_output;
  }

  void SetShop() const {
    Output({"principal", "set", "shop", "--role=caller",
            "--client-ids=shop/*,acme"});
  }

  // The new token, without the end of its line.
  std::string CreateToken(std::vector<std::string> options = {}) const {
    std::vector<std::string> arguments = {"token", "create", "shop"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return std::string(absl::StripSuffix(Output(arguments), "\n"));
  }

  static std::string IdOf(const std::string& token) {
    return token.substr(7, 16);
  }

  static std::string database;
  const std::string url_;
};

std::string AccessCommandLineTest::database;

TEST_F(AccessCommandLineTest, SetSaysWhetherItCreatedOrReplaced) {
  const std::vector<std::string> set = {"principal", "set", "shop",
                                        "--role=caller", "--client-ids=shop"};
  EXPECT_EQ(Output(set), "principal \"shop\" created\n");
  EXPECT_EQ(Output(set), "principal \"shop\" replaced\n");
}

TEST_F(AccessCommandLineTest, ListShowsWhatWasSet) {
  Output({"principal", "set", "shop", "--role", "admin", "--client-ids",
          "shop/*,acme", "--certificates=uri:spiffe://prod/shop,dns:shop.x",
          "--calls-in-flight-max=7", "--calls_per_second_max=8",
          "--live-keys-max=0", "--stored-bytes-max=9"});
  Output({"principal", "set", "mail", "--role=reader", "--client-ids=*"});
  const std::vector<std::string> lines =
      absl::StrSplit(Output({"principal", "list"}), '\n');
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], MatchesRegex("NAME +ROLE +CLIENT-IDS +CERTIFICATES"
                                     " +LIMITS +CREATED"));
  EXPECT_THAT(lines[1],
              MatchesRegex("mail +reader +\\* +none +none +20[0-9TZ:-]+"));
  EXPECT_THAT(
      lines[2],
      MatchesRegex("shop +admin +shop/\\*,acme +dns:shop.x,uri:spiffe://prod/"
                   "shop +calls-in-flight-max=7,calls-per-second-max=8,"
                   "live-keys-max=0,stored-bytes-max=9 +20[0-9TZ:-]+"));
}

TEST_F(AccessCommandLineTest, RemoveTakesTheTokensAlong) {
  SetShop();
  CreateToken();
  EXPECT_THAT(Output({"principal", "remove", "shop"}), HasSubstr("removed"));
  EXPECT_THAT(Output({"token", "list"}), Not(HasSubstr("shop")));
  const ProcessResult again = Dedupe({"principal", "remove", "shop"});
  EXPECT_EQ(again.exit_code, kFailure);
  EXPECT_THAT(again.standard_error,
              StartsWith("dedupe: \"shop\": there is no principal"));
}

TEST_F(AccessCommandLineTest, CreatePrintsTheTokenAlone) {
  SetShop();
  const ProcessResult result = Dedupe({"token", "create", "shop"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.standard_output,
              MatchesRegex("dedupe_[0-9a-f]+\\.[0-9a-f]+\n"));
  const std::string token(absl::StripSuffix(result.standard_output, "\n"));
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr(IdOf(token)), HasSubstr("does not expire")));
  EXPECT_THAT(result.standard_error, Not(HasSubstr(token)));
  // It is the one whose digest is kept.
  const auto presented = ParseBearer("Bearer " + token);
  ASSERT_TRUE(presented.has_value());
  EXPECT_EQ(SqlValue(url_, absl::StrCat("SELECT encode(sha256, 'escape') ="
                                        " encode(sha256('",
                                        token.substr(24),
                                        "'), 'escape') FROM dedupe.token WHERE"
                                        " id = '",
                                        presented->id, "'")),
            "t");
}

TEST_F(AccessCommandLineTest, ExpiryIsToldAndKept) {
  SetShop();
  const ProcessResult result =
      Dedupe({"token", "create", "shop", "--expires-in=720h"});
  EXPECT_THAT(result.standard_error,
              ContainsRegex("expires at 20[0-9]+-[0-9T:-]+Z"));
  EXPECT_EQ(SqlValue(url_, "SELECT expires_at - created_at FROM dedupe.token"),
            "30 days");
}

TEST_F(AccessCommandLineTest, ListShowsTokensAndNoDigest) {
  SetShop();
  const std::string token = CreateToken();
  CreateToken({"--expires-in", "1h"});
  Output({"principal", "set", "mail", "--role=reader", "--client-ids=*"});
  Output({"token", "create", "mail"});
  Output({"token", "revoke", IdOf(token)});
  const std::string all = Output({"token", "list"});
  const std::string shops = Output({"token", "list", "shop"});
  EXPECT_THAT(all, ContainsRegex("mail +20[^ ]+ +never +never +live\n"));
  EXPECT_THAT(shops, Not(HasSubstr("mail")));
  EXPECT_THAT(shops, StartsWith("ID "));
  EXPECT_THAT(shops, ContainsRegex(IdOf(token) + " +shop +20[^ ]+ +never +never"
                                                 " +revoked\n"));
  EXPECT_THAT(shops, ContainsRegex("shop +20[^ ]+ +20[^ ]+ +never +live\n"));
  for (const auto& row : Sql(url_,
                             "SELECT encode(sha256, 'hex') FROM"
                             " dedupe.token")) {
    EXPECT_THAT(all, Not(HasSubstr(row[0].c_str())));
  }
  EXPECT_EQ(Dedupe({"token", "list", "nobody"}).exit_code, kFailure);
}

TEST_F(AccessCommandLineTest, ThirdLiveTokenIsRefused) {
  SetShop();
  const std::string first = CreateToken();
  CreateToken();
  const ProcessResult third = Dedupe({"token", "create", "shop"});
  EXPECT_EQ(third.exit_code, kFailure);
  EXPECT_THAT(third.standard_output, IsEmpty());
  EXPECT_THAT(third.standard_error, HasSubstr("dedupe token revoke"));
  Output({"token", "revoke", IdOf(first)});
  CreateToken();
}

TEST_F(AccessCommandLineTest, RevokingTwiceOrNothingFails) {
  SetShop();
  const std::string id = IdOf(CreateToken());
  EXPECT_EQ(Output({"token", "revoke", id}),
            absl::StrCat("token ", id, " revoked\n"));
  EXPECT_EQ(Dedupe({"token", "revoke", id}).exit_code, kFailure);
  EXPECT_EQ(Dedupe({"token", "revoke", "0123456789abcdef"}).exit_code,
            kFailure);
}

// Nobody could ever use it, so it must not count as one of two.
TEST_F(AccessCommandLineTest, TokenThatNobodySawIsRevoked) {
  SetShop();
  const ProcessResult result = RunProcess(
      {"sh", "-c",
       absl::StrCat(DedupeBinary(), " token create shop >/dev/full")},
      {{"DEDUPE_DATABASE_URL", url_}});
  EXPECT_EQ(result.exit_code, kFailure);
  EXPECT_THAT(result.standard_error, HasSubstr("was revoked"));
  EXPECT_EQ(SqlValue(url_,
                     "SELECT count(*) FROM dedupe.token WHERE revoked_at"
                     " IS NOT NULL"),
            "1");
}

// Whoever writes a token where something else belongs finds it in no log.
TEST_F(AccessCommandLineTest, TokensAreNeverShownAgain) {
  SetShop();
  const std::string token = CreateToken();
  const std::string secret = token.substr(24);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"token", "revoke", token},
           {"token", "revoke", secret},
           {"token", "revoke", "x", token},
           {"token", "create", token},
           {"token", "create", "shop", token},
           {"token", "create", "shop", "--expires-in", token},
           {"token", "list", token},
           {"token", token},
           {token},
           {"principal", "remove", token},
           {"principal", "set", token, "--role", secret, "--client-ids=x"},
           {"principal", "set", "x", "--role=caller", "--client-ids=x",
            "--live-keys-max", token}}) {
    const ProcessResult result = Dedupe(arguments);
    EXPECT_THAT(result.exit_code, ::testing::AnyOf(kFailure, kUsage));
    EXPECT_THAT(result.standard_output + result.standard_error,
                Not(HasSubstr(secret)))
        << arguments[0] << " " << arguments.back();
    EXPECT_THAT(result.standard_error, StartsWith("dedupe: "));
  }
}

TEST_F(AccessCommandLineTest, WrongUseIsAMistakeOfOneLine) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"principal"},
           {"principal", "put", "shop"},
           {"principal", "set"},
           {"principal", "set", "--role=caller"},
           {"principal", "set", "shop"},
           {"principal", "set", "shop", "--role=caller"},
           {"principal", "set", "shop", "--role=owner", "--client-ids=x"},
           {"principal", "set", "shop", "--role=caller", "--client-ids="},
           {"principal", "set", "shop", "--role=caller", "--client-ids=a,,b"},
           {"principal", "set", "shop", "--role=caller", "--client-ids=a",
            "--live-keys-max=many"},
           {"principal", "set", "shop", "--role=caller", "--client-ids=a",
            "--live-keys-max=-1"},
           {"principal", "set", "shop", "--role=caller", "--client-ids=a",
            "--certificates=shop.internal"},
           {"principal", "set", "shop", "--role=caller", "--client-ids"},
           {"principal", "set", "shop", "--role=caller", "--client-ids=a",
            "--no-such=1"},
           {"principal", "list", "shop"},
           {"principal", "list", "--role=caller"},
           {"principal", "remove"},
           {"token"},
           {"token", "create"},
           {"token", "create", "shop", "--expires-in=soon"},
           {"token", "create", "shop", "--expires-in=0s"},
           {"token", "create", "shop", "mail"},
           {"token", "revoke"},
           {"token", "revoke", "0123"}}) {
    const ProcessResult result = Dedupe(arguments);
    EXPECT_EQ(result.exit_code, kUsage) << result.standard_error;
    EXPECT_THAT(result.standard_output, IsEmpty());
    EXPECT_THAT(result.standard_error, MatchesRegex("dedupe: [^\n]*\n"));
  }
  EXPECT_EQ(SqlValue(url_, "SELECT count(*) FROM dedupe.principal"), "0");
}

TEST_F(AccessCommandLineTest, SettingsNameTheDatabase) {
  const std::vector<std::string> arguments = {DedupeBinary(), "principal",
                                              "list", "--database-url", url_};
  EXPECT_EQ(RunProcess(arguments, {}).exit_code, 0);
  const ProcessResult nowhere =
      RunProcess({DedupeBinary(), "token", "list"},
                 {{"DEDUPE_DATABASE_URL", "host=/nowhere"}});
  EXPECT_EQ(nowhere.exit_code, kFailure);
  EXPECT_THAT(nowhere.standard_error, StartsWith("dedupe: "));
}

TEST_F(AccessCommandLineTest, ServersLoginMayNot) {
  const ProcessResult result =
      RunProcess({DedupeBinary(), "token", "create", "shop"},
                 {{"DEDUPE_DATABASE_URL",
                   PostgresCluster::Shared().Url(database, "dedupe_server")}});
  EXPECT_EQ(result.exit_code, kFailure);
  EXPECT_THAT(result.standard_error, AllOf(HasSubstr("\"dedupe_server\""),
                                           HasSubstr("dedupe_migrator")));
}

TEST_F(AccessCommandLineTest, HelpShowsThem) {
  const std::string help = Output({"help"});
  for (const char* command :
       {"dedupe principal set NAME", "dedupe principal list",
        "dedupe principal remove NAME", "dedupe token create PRINCIPAL",
        "dedupe token list", "dedupe token revoke ID"}) {
    EXPECT_THAT(help, HasSubstr(command));
  }
}

}  // namespace
}  // namespace dedupe::testing
