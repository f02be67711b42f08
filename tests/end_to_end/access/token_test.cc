// Tokens: what lets a caller in, what does not, and that the latter is told
// nothing about why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tests/end_to_end/access/guarded_server.h"

namespace dedupe::testing {
namespace {

constexpr auto kUnauthenticated = grpc::StatusCode::UNAUTHENTICATED;

class TokenTest : public AccessTest {
 protected:
  static std::string CallerToken(const std::string& principal) {
    return Guarded().NewToken(
        principal, {"--role=caller", "--client-ids=" + principal + "/*"});
  }

  // Everything that a refused caller gets to see.
  static std::string Refusal(const std::vector<std::string>& authorizations,
                             const std::string& client_id = "acme") {
    Identity identity;
    identity.authorizations = authorizations;
    Client client(Guarded().address(), identity);
    grpc::ClientContext context;
    client.Identify(context);
    v1::BeginResponse response;
    const grpc::Status status =
        client.stub().Begin(&context, BeginFor(client_id), &response);
    EXPECT_EQ(status.error_code(), kUnauthenticated);
    EXPECT_EQ(ReasonOf(status), "CREDENTIALS_REFUSED");
    std::string seen = Describe(status);
    for (const auto& [name, value] : context.GetServerTrailingMetadata()) {
      absl::StrAppend(&seen, " ", absl::string_view(name.data(), name.size()),
                      "=", absl::string_view(value.data(), value.size()));
    }
    return seen;
  }
};

TEST_F(TokenTest, BearerIsLetIn) {
  const auto client = ClientWith(CallerToken("let-in"));
  const BeginReply begun = client->Begin(BeginFor("let-in/eu"));
  ASSERT_THAT(begun, IsStarted());
  EXPECT_THAT(
      client->Complete(CompleteOf(BeginFor("let-in/eu"),
                                  begun.message.started().fence(), "done")),
      IsOk());
  EXPECT_THAT(client->Begin(BeginFor("let-in/eu")), IsReplayOf("done"));
}

// Whatever is wrong: one answer, byte for byte.
TEST_F(TokenTest, B57EveryWrongTokenGetsOneAnswer) {
  const std::string token = CallerToken("b57");
  const std::string other = CallerToken("b57-other");
  const std::string revoked = CallerToken("b57-revoked");
  Guarded().administrator().RevokeToken(revoked);
  Guarded().AwaitRefused(revoked);
  const std::string expired =
      Guarded().administrator().CreateToken("b57", {"--expires-in=1s"});
  Guarded().AwaitAccepted(expired);
  Guarded().AwaitRefused(expired);

  std::string wrong_in_the_last = token;
  wrong_in_the_last.back() = token.back() == '0' ? '1' : '0';
  const std::string someone_elses =
      token.substr(0, token.find('.')) + other.substr(other.find('.'));
  const std::string good = "Bearer " + token;
  std::set<std::string> answers;
  for (const std::vector<std::string>& authorizations :
       std::vector<std::vector<std::string>>{
           {},
           {""},
           {"Bearer "},
           {"Bearer " + wrong_in_the_last},
           {"Bearer " + someone_elses},
           {"Bearer " + revoked},
           {"Bearer " + expired},
           {"Bearer " + token.substr(0, token.find('.'))},
           {"Bearer " + token + "0"},
           {"Basic " + token},
           {token},
           {good, good},
           {good, "Bearer " + other},
           {"Bearer nonsense", good},
           {std::string(4000, 'x')}}) {
    answers.insert(Refusal(authorizations));
  }
  EXPECT_EQ(answers.size(), 1u);
  // And it does not depend on what is asked for.
  answers.insert(Refusal({}, "b57/eu"));
  answers.insert(Refusal({}, std::string(300, 'x')));
  EXPECT_EQ(answers.size(), 1u);
}

TEST_F(TokenTest, TwoLiveTokensOfOnePrincipalAllowRotation) {
  const std::string first = CallerToken("rotated");
  const std::string second = Guarded().administrator().CreateToken("rotated");
  Guarded().AwaitAccepted(second);
  EXPECT_THAT(ClientWith(first)->Lookup(LookupOf(BeginFor("rotated/eu"))),
              IsOk());
  Guarded().administrator().RevokeToken(first);
  Guarded().AwaitRefused(first);
  EXPECT_THAT(ClientWith(second)->Lookup(LookupOf(BeginFor("rotated/eu"))),
              IsOk());
}

TEST_F(TokenTest, RevocationIsEffectiveUnderLoadAndFailsNobodyElse) {
  const std::string revoked = CallerToken("revoked");
  constexpr int kOthers = 4;
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kOthers; ++i) {
    const std::string name = absl::StrCat("bystander-", i);
    threads.emplace_back([&, name, token = CallerToken(name)] {
      const auto client = ClientWith(token);
      for (int key = 0; !stop; ++key) {
        const v1::BeginRequest begin =
            BeginFor(name + "/eu", absl::StrCat("key-", key));
        const BeginReply begun = client->Begin(begin);
        const CompleteReply completed = client->Complete(
            CompleteOf(begin, begun.message.started().fence(), "done"));
        calls += 2;
        failures += begun.status.ok() && completed.status.ok() ? 0 : 1;
      }
    });
  }
  const auto client = ClientWith(revoked);
  const auto is_let_in = [&] {
    return client->Lookup(LookupOf(BeginFor("revoked/eu"))).status.ok();
  };
  ASSERT_TRUE(is_let_in());
  const absl::Time revoked_at = absl::Now();
  Guarded().administrator().RevokeToken(revoked);
  EXPECT_TRUE(GuardedServer::Await([&] { return !is_let_in(); }));
  const absl::Duration took = absl::Now() - revoked_at;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(took, kEffectiveWithin);
  EXPECT_GT(calls, 100);
  EXPECT_EQ(failures, 0);
  RecordProperty("revoked_after_ms",
                 static_cast<int>(absl::ToInt64Milliseconds(took)));
  RecordProperty("calls_of_others", calls);
  GTEST_LOG_(INFO) << "revoked after " << took << ", with " << calls
                   << " calls of others, " << failures << " failed";
}

TEST_F(TokenTest, RemovedPrincipalIsNobody) {
  const std::string token = CallerToken("removed");
  ASSERT_EQ(Guarded()
                .administrator()
                .Run({"principal", "remove", "removed"})
                .exit_code,
            0);
  Guarded().AwaitRefused(token);
}

TEST_F(TokenTest, TimeOfUseIsKept) {
  const std::string token = CallerToken("used");
  const std::string last_used =
      "SELECT last_used_at IS NOT NULL FROM dedupe.token_use WHERE id = '" +
      IdOfToken(token) + "'";
  EXPECT_TRUE(GuardedServer::Await([&] {
    return SqlValue(Guarded().deployment().url(), last_used) == "t";
  }));
}

// Neither what is right nor what is wrong.
TEST(TokenSecrecyTest, NoTokenIsInTheLog) {
  PostgresCluster::Shared();
  GuardedServer server({"--log-level=debug"});
  const std::string token =
      server.NewToken("acme", {"--role=caller", "--client-ids=acme"});
  std::string wrong = token;
  wrong.back() = token.back() == '0' ? '1' : '0';
  server.AwaitRefused(wrong);
  const std::string secret = token.substr(token.find('.') + 1);
  const std::string log = server.deployment().server().process().Output();
  EXPECT_TRUE(absl::StrContains(log, "\"principal\":\"acme\""));
  EXPECT_FALSE(absl::StrContains(log, secret.substr(0, 60)));
  EXPECT_FALSE(absl::StrContains(log, "Bearer"));
}

}  // namespace
}  // namespace dedupe::testing
