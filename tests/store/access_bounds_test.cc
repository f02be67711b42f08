// The bounds of principals and tokens, twice: in words from AccessAdmin, and as
// constraints against whoever comes by SQL. And who may manage them at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/service/limits.h"
#include "tests/store/access_database.h"

namespace dedupe::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kCheckViolation[] = "23514";

class AccessBoundsTest : public AccessDatabase {
 protected:
  absl::StatusCode PutWith(const std::function<void(Principal&)>& change,
                           const std::vector<std::string>& certificates = {}) {
    Principal principal = MakePrincipal("shop");
    change(principal);
    return admin_->PutPrincipal(principal, certificates).status().code();
  }

  absl::StatusCode PutCertificates(const std::vector<std::string>& names) {
    return PutWith([](Principal&) {}, names);
  }

  // The constraint that the database names when it refuses a row.
  void ExpectRefusedBy(const std::string& constraint,
                       const std::string& statement) {
    const Session::Answer answer = session_.Run(statement);
    EXPECT_EQ(answer.sqlstate, kCheckViolation) << statement;
    EXPECT_THAT(answer.message, HasSubstr("\"" + constraint + "\""))
        << statement;
  }
};

TEST_F(AccessBoundsTest, NamesOfPrincipals) {
  for (const std::string& good :
       {std::string("x"), std::string(kPrincipalNameBytesMax, 'x'),
        std::string("a b/c:d\u00e9")}) {
    EXPECT_TRUE(admin_->PutPrincipal(MakePrincipal(good), {}).ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string(kPrincipalNameBytesMax + 1, 'x'),
        std::string(kPrincipalNameBytesMax - 1, 'x') + "\u00e9",
        std::string("a\nb"), std::string("\u0085"), std::string("\xff")}) {
    EXPECT_EQ(admin_->PutPrincipal(MakePrincipal(bad), {}).status().code(),
              kInvalid);
    EXPECT_EQ(admin_->RemovePrincipal(bad).code(), kInvalid);
    EXPECT_EQ(
        admin_->CreateToken(bad, MakeToken(1), std::nullopt).status().code(),
        kInvalid);
    EXPECT_EQ(admin_->ListTokens(bad).status().code(), kInvalid);
  }
}

TEST_F(AccessBoundsTest, ClientIdPatterns) {
  const auto with = [&](std::vector<std::string> patterns) {
    return PutWith([&](Principal& p) { p.client_ids = std::move(patterns); });
  };
  EXPECT_EQ(with({std::string(kClientIdBytesMax, 'x')}), absl::StatusCode::kOk);
  EXPECT_EQ(with(std::vector<std::string>(kClientIdPatternsMax, "x")),
            absl::StatusCode::kOk);
  EXPECT_EQ(with(std::vector<std::string>(kClientIdPatternsMax + 1, "x")),
            kInvalid);
  EXPECT_EQ(with({}), kInvalid);
  for (const std::string& bad :
       {std::string(), std::string(kClientIdBytesMax + 1, 'x'),
        std::string(kClientIdBytesMax - 1, 'x') + "\u00e9",
        std::string("a\tb")}) {
    EXPECT_EQ(with({"good", bad}), kInvalid);
  }
}

TEST_F(AccessBoundsTest, CertificateNames) {
  const std::string longest =
      "uri:" + std::string(kCertificateNameBytesMax - 4, 'x');
  EXPECT_EQ(PutCertificates({longest, "dns:x"}), absl::StatusCode::kOk);
  for (const std::string& bad :
       {longest + "x", std::string(), std::string("uri:"), std::string("dns:"),
        std::string("shop.internal"), std::string("URI:x"),
        std::string("dns:a\nb")}) {
    EXPECT_EQ(PutCertificates({bad}), kInvalid) << bad;
  }
  std::vector<std::string> many;
  for (size_t i = 0; i < kCertificateNamesMax; ++i) {
    many.push_back(absl::StrCat("dns:", i));
  }
  EXPECT_EQ(PutCertificates(many), absl::StatusCode::kOk);
  many.emplace_back("dns:more");
  EXPECT_EQ(PutCertificates(many), kInvalid);
}

TEST_F(AccessBoundsTest, Quotas) {
  struct Bound {
    std::optional<int64_t> Quota::*member;
    int64_t least;
    int64_t most;
  };
  for (const Bound& bound :
       {Bound{&Quota::calls_in_flight_max, 1, kCallsInFlightQuotaMax},
        Bound{&Quota::calls_per_second_max, 1, kCallsPerSecondQuotaMax},
        Bound{&Quota::live_keys_max, 0, kLiveKeysQuotaMax},
        Bound{&Quota::stored_bytes_max, 0, kStoredBytesQuotaMax}}) {
    const auto with = [&](int64_t value) {
      return PutWith([&](Principal& p) { p.quota.*bound.member = value; });
    };
    EXPECT_EQ(with(bound.least), absl::StatusCode::kOk);
    EXPECT_EQ(with(bound.most), absl::StatusCode::kOk);
    EXPECT_EQ(with(bound.least - 1), kInvalid);
    EXPECT_EQ(with(bound.most + 1), kInvalid);
  }
}

TEST_F(AccessBoundsTest, LifetimesOfTokens) {
  Put(MakePrincipal("shop"));
  const auto with = [&](absl::Duration lifetime) {
    session_.Run("TRUNCATE dedupe.token CASCADE");
    return admin_->CreateToken("shop", MakeToken(1), lifetime).status().code();
  };
  EXPECT_EQ(with(kTokenLifetimeMin), absl::StatusCode::kOk);
  EXPECT_EQ(with(kTokenLifetimeMax), absl::StatusCode::kOk);
  EXPECT_EQ(with(kTokenLifetimeMax + absl::Microseconds(1)), kInvalid);
  EXPECT_EQ(with(kTokenLifetimeMin - absl::Microseconds(1)), kInvalid);
  EXPECT_EQ(with(-absl::Hours(1)), kInvalid);
  EXPECT_EQ(with(absl::InfiniteDuration()), kInvalid);
}

// Whoever gives the token itself does not read it in the answer.
TEST_F(AccessBoundsTest, TokensIdIsNotTheToken) {
  const auto token = MintToken();
  ASSERT_TRUE(token.ok());
  for (const std::string& bad : {token->text, std::string(), token->id + "0",
                                 std::string(16, 'A'), std::string(16, 'g')}) {
    const absl::Status status = admin_->RevokeToken(bad);
    EXPECT_EQ(status.code(), kInvalid);
    if (!bad.empty()) {
      EXPECT_THAT(std::string(status.message()),
                  ::testing::Not(HasSubstr(bad)));
    }
  }
}

TEST_F(AccessBoundsTest, DatabaseHoldsPrincipalsToThem) {
  Put(MakePrincipal("shop"));
  const auto update = [](const std::string& change) {
    return "UPDATE dedupe.principal SET " + change;
  };
  ExpectRefusedBy("principal_name_length", update("name = ''"));
  ExpectRefusedBy("principal_name_length", update("name = repeat('x', 129)"));
  ExpectRefusedBy("principal_name_text", update("name = E'a\\nb'"));
  ExpectRefusedBy("principal_client_ids_count", update("client_ids = '{}'"));
  ExpectRefusedBy("principal_client_ids_count",
                  update("client_ids = array_fill('x'::text, ARRAY[65])"));
  ExpectRefusedBy("principal_client_ids_count",
                  update("client_ids = '{{a,b},{c,d}}'"));
  ExpectRefusedBy("principal_client_ids_length",
                  update("client_ids = '{a,NULL}'"));
  ExpectRefusedBy("principal_client_ids_length",
                  update("client_ids = '{a,\"\"}'"));
  ExpectRefusedBy("principal_client_ids_length",
                  update("client_ids = ARRAY['a', repeat('x', 256)]"));
  ExpectRefusedBy("principal_client_ids_text",
                  update("client_ids = ARRAY['a', E'b\\u0085']"));
  ExpectRefusedBy("principal_calls_in_flight_range",
                  update("calls_in_flight_max = 0"));
  ExpectRefusedBy("principal_calls_in_flight_range",
                  update("calls_in_flight_max = 1000001"));
  ExpectRefusedBy("principal_calls_per_second_range",
                  update("calls_per_second_max = 0"));
  ExpectRefusedBy("principal_calls_per_second_range",
                  update("calls_per_second_max = 1000000001"));
  ExpectRefusedBy("principal_live_keys_range", update("live_keys_max = -1"));
  ExpectRefusedBy("principal_live_keys_range",
                  update("live_keys_max = 1000000000001"));
  ExpectRefusedBy("principal_stored_bytes_range",
                  update("stored_bytes_max = -1"));
  ExpectRefusedBy("principal_stored_bytes_range",
                  update("stored_bytes_max = 1000000000000001"));
}

TEST_F(AccessBoundsTest, DatabaseHoldsTokensAndNamesToThem) {
  Put(MakePrincipal("shop"), {"dns:shop"});
  Create("shop", 1);
  const auto token = [](const std::string& change) {
    return "UPDATE dedupe.token SET " + change;
  };
  ExpectRefusedBy("token_id_form", token("id = 'x'"));
  ExpectRefusedBy("token_id_form", token("id = repeat('F', 16)"));
  ExpectRefusedBy("token_sha256_length", token("sha256 = '\\x00'"));
  ExpectRefusedBy("token_expires_later", token("expires_at = created_at"));
  ExpectRefusedBy("token_use_time_finite",
                  "UPDATE dedupe.token_use SET last_used_at = 'infinity'");
  for (const char* column : {"expires_at", "revoked_at"}) {
    ExpectRefusedBy("token_times_finite",
                    token(absl::StrCat(column, " = 'infinity'")));
  }
  const auto name = [](const std::string& value) {
    return "UPDATE dedupe.certificate_name SET name = " + value;
  };
  ExpectRefusedBy("certificate_name_kind", name("'shop.internal'"));
  ExpectRefusedBy("certificate_name_dns_lower", name("'dns:Shop'"));
  ExpectRefusedBy("certificate_name_length", name("'dns:'"));
  ExpectRefusedBy("certificate_name_length",
                  name("'dns:' || repeat('x', 2049)"));
  ExpectRefusedBy("certificate_name_text", name("E'dns:a\\tb'"));
  ExpectRefusedBy("access_version_positive",
                  "UPDATE dedupe.access_version SET version = 0");
  ExpectRefusedBy("access_version_one_row",
                  "INSERT INTO dedupe.access_version (id) VALUES (false)");
  // Neither can be without its principal.
  for (const char* orphan :
       {"UPDATE dedupe.token SET principal = 'nobody'",
        "UPDATE dedupe.certificate_name SET principal = 'nobody'"}) {
    EXPECT_EQ(session_.Run(orphan).sqlstate, "23503") << orphan;
  }
}

TEST_F(AccessBoundsTest, FunctionsHoldTheirArgumentsToThem) {
  Put(MakePrincipal("shop"));
  constexpr char kParameter[] = "22023";
  EXPECT_EQ(session_
                .Run("SELECT dedupe.put_principal('shop', 'reader', '{x}',"
                     " array_fill('dns:x'::text, ARRAY[65]), NULL, NULL, NULL,"
                     " NULL)")
                .sqlstate,
            kParameter);
  for (const char* lifetime : {"999999", "0", "-1", "315619200000001"}) {
    EXPECT_EQ(session_
                  .Run(absl::StrCat("SELECT dedupe.create_token('shop',"
                                    " '00000000000000aa', sha256('x'), ",
                                    lifetime, ")"))
                  .sqlstate,
              kParameter)
        << lifetime;
  }
}

TEST_F(AccessBoundsTest, PrincipalsAreTenThousandAtMost) {
  ASSERT_EQ(session_
                .Run("INSERT INTO dedupe.principal (created_at, role, name,"
                     " client_ids) SELECT now(), 'reader', 'p' || i, '{x}'"
                     " FROM generate_series(1, 9999) AS i")
                .sqlstate,
            "");
  Put(MakePrincipal("last"));
  EXPECT_EQ(admin_->PutPrincipal(MakePrincipal("more"), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // One that is there may still be replaced, and all of them are read.
  Put(MakePrincipal("last"));
  EXPECT_EQ(List().principals.size(), 10'000U);
}

// A server's login, or nobody's, with the sentence that says what is missing.
TEST_F(AccessBoundsTest, OthersMayManageNothing) {
  Put(MakePrincipal("shop"));
  session_.Run(
      "DROP ROLE IF EXISTS access_stranger;"
      " CREATE ROLE access_stranger LOGIN");
  for (const char* user : {"dedupe_server", "access_stranger"}) {
    const auto other =
        OpenAdmin(PostgresCluster::Shared().Url(database_, user));
    const std::vector<absl::Status> answers = {
        other->PutPrincipal(MakePrincipal("mine"), {}).status(),
        other->RemovePrincipal("shop"),
        other->ListPrincipals().status(),
        other->CreateToken("shop", MakeToken(1), std::nullopt).status(),
        other->RevokeToken(MakeToken(1).id),
        other->ListTokens(std::nullopt).status()};
    for (const absl::Status& answer : answers) {
      EXPECT_EQ(answer.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_THAT(std::string(answer.message()), HasSubstr("dedupe_migrator"));
      EXPECT_THAT(std::string(answer.message()), HasSubstr(user));
    }
  }
}

// Whether it inherits the migrator's rights or has to take its role, and
// whoever else was granted the functions.
TEST_F(AccessBoundsTest, MembersOfTheMigratorManage) {
  session_.Run(
      "DROP ROLE IF EXISTS access_heir, access_member;"
      " CREATE ROLE access_heir LOGIN; CREATE ROLE access_member LOGIN"
      " NOINHERIT; GRANT dedupe_migrator TO access_heir, access_member");
  for (const char* user : {"access_heir", "access_member"}) {
    const auto admin =
        OpenAdmin(PostgresCluster::Shared().Url(database_, user));
    const auto outcome = admin->PutPrincipal(MakePrincipal(user), {});
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_TRUE(
        admin->CreateToken(user, MakeToken(user[7]), std::nullopt).ok());
  }
}

TEST(UnmigratedTest, SaysWhatToRun) {
  PostgresCluster& cluster = PostgresCluster::Shared();
  const auto admin = AccessAdmin::Open(cluster.Url(cluster.CreateDatabase()));
  ASSERT_TRUE(admin.ok()) << admin.status();
  const absl::Status status = (*admin)->ListPrincipals().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("dedupe migrate"));
}

TEST(UnmigratedTest, NoDatabaseIsUnavailable) {
  EXPECT_EQ(AccessAdmin::Open("host=/nowhere").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace dedupe::testing
