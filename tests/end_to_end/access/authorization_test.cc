// What each role may call, and that callers see nothing of clients that are not
// theirs.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/end_to_end/access/guarded_server.h"
#include "tests/end_to_end/health_client.h"
#include "tests/support/grpcurl.h"

namespace dedupe::testing {
namespace {

constexpr auto kForbidden = grpc::StatusCode::PERMISSION_DENIED;

std::vector<std::string> Methods() {
  const auto& service =
      *v1::BeginRequest::descriptor()->file()->FindServiceByName(
          "DedupeService");
  std::vector<std::string> methods;
  for (int i = 0; i < service.method_count(); ++i) {
    methods.push_back(service.method(i)->name());
  }
  return methods;
}

// A request of this method that is good in itself.
std::string RequestOf(const std::string& method, const std::string& client_id,
                      const std::string& key) {
  v1::BeginRequest begin = BeginOf(key, "attempt-1");
  begin.set_client_id(client_id);
  if (method == "Begin") return begin.SerializeAsString();
  if (method == "Complete") {
    return CompleteOf(begin, 1, "done").SerializeAsString();
  }
  if (method == "Extend") return ExtendOf(begin, 1).SerializeAsString();
  if (method == "Release") return ReleaseOf(begin, 1).SerializeAsString();
  EXPECT_EQ(method, "Lookup");
  return LookupOf(begin).SerializeAsString();
}

class RoleTest : public AccessTest {
 protected:
  static RawReply Send(const std::string& token, const std::string& method,
                       const std::string& client_id,
                       const std::string& key = "key") {
    const auto client = ClientWith(token);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + Client::kLimit));
    client->Identify(context);
    return CallRaw(client->channel(), MethodPath(method),
                   RequestOf(method, client_id, key), context);
  }
};

TEST_F(RoleTest, B59EachRoleIsHeardByJustItsMethods) {
  const std::map<std::string, std::set<std::string>> expected = {
      {"caller", {"Begin", "Complete", "Extend", "Release", "Lookup"}},
      {"reader", {"Lookup"}},
      {"admin", {"Begin", "Complete", "Extend", "Release", "Lookup"}},
  };
  for (const auto& [role, allowed] : expected) {
    const std::string token = Guarded().NewToken(
        "role-" + role, {"--role=" + role, "--client-ids=role-" + role});
    std::set<std::string> heard;
    for (const std::string& method : Methods()) {
      const RawReply reply = Send(token, method, "role-" + role);
      if (reply.status.error_code() == kForbidden) {
        EXPECT_EQ(ReasonOf(reply.status), "METHOD_FORBIDDEN") << method;
      } else {
        heard.insert(method);
      }
    }
    EXPECT_EQ(heard, allowed) << role;
  }
}

TEST_F(RoleTest, ChangeOfRoleTakesEffectWithoutARestart) {
  const std::string token =
      Guarded().NewToken("demoted", {"--role=caller", "--client-ids=demoted"});
  ASSERT_NE(Send(token, "Begin", "demoted").status.error_code(), kForbidden);
  Guarded().administrator().SetPrincipal(
      "demoted", {"--role=reader", "--client-ids=demoted"});
  EXPECT_TRUE(GuardedServer::Await([&] {
    return Send(token, "Begin", "demoted").status.error_code() == kForbidden;
  }));
  EXPECT_THAT(Send(token, "Lookup", "demoted"), IsOk());
}

// --- Walls -------------------------------------------------------------------

class WallTest : public RoleTest {
 protected:
  // A principal has two tokens at most, so all tests share one.
  static const std::string& Ours() {
    static const std::string token = Guarded().NewToken(
        "ours", {"--role=caller", "--client-ids=a/*,shared"});
    return token;
  }
  static const std::string& Theirs() {
    static const std::string token =
        Guarded().NewToken("theirs", {"--role=caller", "--client-ids=b"});
    return token;
  }

  // Keys of b in every state there is; and one that nobody has ever used.
  std::vector<std::string> KeysOfTheirs() {
    const auto client = ClientWith(Theirs());
    std::vector<std::string> keys = {"never-used"};
    const auto begin = [&](const std::string& key) {
      const BeginReply reply = client->Begin(BeginFor("b", key));
      EXPECT_TRUE(reply.status.ok()) << Describe(reply.status);
      keys.push_back(key);
      return reply.message.started().fence();
    };
    begin("in-progress");
    EXPECT_TRUE(client
                    ->Complete(CompleteOf(BeginFor("b", "completed"),
                                          begin("completed"), "secret"))
                    .status.ok());
    EXPECT_TRUE(
        client->Release(ReleaseOf(BeginFor("b", "released"), begin("released")))
            .status.ok());
    return keys;
  }
};

TEST_F(WallTest, B58KeysOfOthersAreForbiddenWhateverTheirState) {
  const std::vector<std::string> keys = KeysOfTheirs();
  std::set<std::string> answers;
  for (const std::string& method : Methods()) {
    for (const std::string& key : keys) {
      const RawReply reply = Send(Ours(), method, "b", key);
      EXPECT_THAT(reply, IsRefused(kForbidden, "CLIENT_ID_FORBIDDEN"))
          << method << " " << key;
      answers.insert(Describe(reply.status));
    }
  }
  EXPECT_EQ(answers.size(), 1u) << "the answers differ";
  // And nothing has come of it.
  const auto owner = ClientWith(Theirs());
  EXPECT_EQ(owner->StateOf(BeginFor("b", "never-used")),
            v1::RECORD_STATE_ABSENT);
  EXPECT_EQ(owner->StateOf(BeginFor("b", "in-progress")),
            v1::RECORD_STATE_IN_PROGRESS);
}

TEST_F(WallTest, ClientsThatMerelyResembleOursAreForbidden) {
  for (const char* client_id : {"a", "A/x", "ab", "b", "shared/x", "share",
                                "a\\/x", " a/x", "*", "a*"}) {
    EXPECT_THAT(Send(Ours(), "Lookup", client_id),
                IsRefused(kForbidden, "CLIENT_ID_FORBIDDEN"))
        << client_id;
  }
  for (const char* client_id : {"a/", "a/x", "a/*", "shared"}) {
    EXPECT_THAT(Send(Ours(), "Lookup", client_id), IsOk()) << client_id;
  }
}

// Nothing that the database does can be told from how long it takes.
TEST_F(WallTest, ForbiddenCallAsksTheDatabaseNothing) {
  PostgresCluster cluster({});
  Deployment deployment({"--authentication=required"}, cluster);
  const Administrator administrator(deployment.url());
  administrator.SetPrincipal("ours", {"--role=caller", "--client-ids=a/*"});
  const std::string token = administrator.CreateToken("ours");
  Client client(deployment.server().address(), Identity::OfToken(token));
  ASSERT_TRUE(GuardedServer::Await(
      [&] { return client.Lookup(LookupOf(BeginFor("a/x"))).status.ok(); }));
  cluster.SignalAll(SIGSTOP);
  const absl::Time began = absl::Now();
  EXPECT_THAT(client.Lookup(LookupOf(BeginFor("b"))),
              IsRefused(kForbidden, "CLIENT_ID_FORBIDDEN"));
  EXPECT_LT(absl::Now() - began, absl::Seconds(1));
  cluster.SignalAll(SIGCONT);
}

// An error in the request is the caller's to see, whoever it is.
TEST_F(WallTest, MissingClientIdIsTheCallersMistake) {
  EXPECT_THAT(Send(Ours(), "Lookup", ""),
              IsRefused(grpc::StatusCode::INVALID_ARGUMENT, "CLIENT_ID_EMPTY"));
}

// What a proxy in front might say of somebody counts for nothing.
TEST_F(WallTest, B60NamesInHeadersAreNobody) {
  Client client(Guarded().address());
  for (const char* header : {"x-dedupe-peer", "x-forwarded-client-cert",
                             "x-forwarded-for", "x-principal"}) {
    grpc::ClientContext context;
    context.AddMetadata(header, "ours");
    v1::LookupResponse response;
    EXPECT_EQ(client.stub()
                  .Lookup(&context, LookupOf(BeginFor("a/x")), &response)
                  .error_code(),
              grpc::StatusCode::UNAUTHENTICATED)
        << header;
  }
}

// --- What is open to everybody -----------------------------------------------

TEST_F(AccessTest, HealthIsOpen) {
  const HealthClient health(Guarded().address());
  EXPECT_EQ(health.Check("readiness"), HealthState::kServing);
}

TEST_F(AccessTest, ReflectionIsOpenAndCanBeSwitchedOff) {
  if (!HasGrpcurl()) GTEST_SKIP() << "grpcurl is not installed";
  EXPECT_THAT(Grpcurl(Guarded().address()).ListServices(),
              ::testing::HasSubstr("dedupe.v1.DedupeService"));
  Deployment closed({"--authentication=required", "--reflection=false"});
  EXPECT_THAT(Grpcurl(closed.server().address()).ListServices(),
              ::testing::HasSubstr("does not support the reflection API"));
}

}  // namespace
}  // namespace dedupe::testing
