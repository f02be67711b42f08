// The client library with TLS and credentials: who is heard, and what is not
// worth repeating.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "dedupe/run_once.h"
#include "tests/end_to_end/client/secured_deployment.h"

namespace dedupe::testing {
namespace {

namespace dd = ::dedupe::client;

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

dd::Done Answer() { return {{.code = 200, .headers = {}, .body = "b"}}; }

// Each of the five calls, and RunOnce.
void ExpectAllCallsToBeHeard(LibraryClient& client, dd::BeginRequest begin) {
  const auto started = Expect<dd::Started>(client.Begin(begin));
  Expect<dd::Extended>(client.Extend({.client_id = begin.client_id,
                                      .key = begin.key,
                                      .attempt_id = begin.attempt_id,
                                      .fence = started.fence,
                                      .lease = {},
                                      .checkpoint = "half"}));
  Expect<dd::Released>(client.Release({.client_id = begin.client_id,
                                       .key = begin.key,
                                       .attempt_id = begin.attempt_id,
                                       .fence = started.fence}));
  begin.attempt_id = dd::NewAttemptId();
  const auto again = Expect<dd::Started>(client.Begin(begin));
  Expect<dd::Completed>(client.Complete({.client_id = begin.client_id,
                                         .key = begin.key,
                                         .attempt_id = begin.attempt_id,
                                         .fence = again.fence,
                                         .response = Answer().response}));
  const auto record = client.Lookup(begin.client_id, begin.key);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->state, dd::RecordState::kCompleted);

  dd::RunOnceRequest run;
  run.client_id = begin.client_id;
  run.key = begin.key + "-run";
  run.fingerprint = "f";
  Expect<dd::Ran>(
      dd::RunOnce(client, run, [](dd::Attempt&) { return Answer(); }));
  Expect<dd::Replay>(
      dd::RunOnce(client, run, [](dd::Attempt&) { return Answer(); }));
}

TEST_F(SecuredTest, TokenIsHeardOverTls) {
  const auto client = Connect(NewToken());
  ExpectAllCallsToBeHeard(*client, BeginFor("k"));
  EXPECT_EQ(sendings(), 9);
}

TEST_F(SecuredTest, CertificateIsHeardInsteadOfAToken) {
  Server().administrator().SetPrincipal(
      Name(), {"--role=caller", "--client-ids=" + Name(),
               "--certificates=uri:spiffe://prod/library"});
  const CertificateAndKey own =
      IssueTo(Server().client_authority(), {"URI:spiffe://prod/library"});
  const auto client =
      MakeLibraryClient(Address(), SecuredOptions(Server(), own));
  ASSERT_TRUE(
      GuardedServer::Await([&] { return client->Lookup(Name(), "k").ok(); }));
  ExpectAllCallsToBeHeard(*client, BeginFor("k"));
}

// A server that is not the one it is taken for is told no token.
TEST_F(SecuredTest, ServerOfAnotherAuthorityHearsNothing) {
  CertificateAuthority other("others");
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = other.certificate_pem();
  dd::ClientOptions options;
  options.credentials = grpc::SslCredentials(tls);
  const auto client = Connect(NewToken(), options);
  const auto unknown = Expect<dd::Unknown>(client->Begin(
      BeginFor("k"), {.timeout = absl::Milliseconds(500), .stop = {}}));
  EXPECT_NE(unknown.status.code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(SecuredTest, PlaintextIsNotHeard) {
  const auto client = Connect(NewToken(), dd::ClientOptions());
  Expect<dd::Unknown>(client->Begin(
      BeginFor("k"), {.timeout = absl::Milliseconds(500), .stop = {}}));
}

// --- Refusals ----------------------------------------------------------------

class RefusalTest : public SecuredTest {
 protected:
  // Of the call with all its sendings, of which there was one, and quickly.
  void ExpectRefusedAtOnce(LibraryClient& client, absl::StatusCode code,
                           const std::string& reason,
                           const std::string& client_id = Name()) {
    dd::BeginRequest begin = BeginFor("k");
    begin.client_id = client_id;
    const int before = sendings();
    const absl::Duration took = TimeOf([&] {
      const auto refused = client.Begin(begin);
      EXPECT_EQ(refused.status().code(), code) << refused.status();
      EXPECT_EQ(dd::ReasonOf(refused.status()), reason);
    });
    EXPECT_EQ(sendings() - before, 1);
    EXPECT_LE(took, absl::Seconds(1));
  }
};

TEST_F(RefusalTest, WrongTokenIsNotSentAgain) {
  std::string token = NewToken();
  token.back() = token.back() == '0' ? '1' : '0';
  for (const std::string& wrong :
       {token, std::string("dedupe_0000000000000000.0"), std::string("jwt")}) {
    const auto client = Connect(wrong);
    ExpectRefusedAtOnce(*client, absl::StatusCode::kUnauthenticated,
                        "CREDENTIALS_REFUSED");
  }
}

TEST_F(RefusalTest, NoTokenIsNotSentAgain) {
  const auto client = Connect("");
  ExpectRefusedAtOnce(*client, absl::StatusCode::kUnauthenticated,
                      "CREDENTIALS_REFUSED");
}

TEST_F(RefusalTest, OthersKeysAreForbidden) {
  const auto client = Connect(NewToken());
  ExpectRefusedAtOnce(*client, absl::StatusCode::kPermissionDenied,
                      "CLIENT_ID_FORBIDDEN", "another");
}

TEST_F(RefusalTest, ReadersMayNotBegin) {
  const auto client = Connect(NewToken({"--role=reader"}));
  ExpectRefusedAtOnce(*client, absl::StatusCode::kPermissionDenied,
                      "METHOD_FORBIDDEN");
  EXPECT_TRUE(client->Lookup(Name(), "k").ok());
}

// gRPC would end the process.
TEST_F(RefusalTest, TokenThatCannotBeSentIsRefusedUnsent) {
  const std::string token = NewToken();
  for (const std::string& wrong :
       {token + "\n", token + '\0', token + "\r\nx: y", token + "\xc3\xa9"}) {
    const auto client = Connect(wrong);
    ExpectRefusedAtOnce(*client, absl::StatusCode::kUnauthenticated, "");
    EXPECT_EQ(client->Lookup(Name(), "k").status().code(),
              absl::StatusCode::kUnauthenticated);
    bool ran = false;
    const auto outcome =
        dd::RunOnce(*client, RunFor("k"), [&](dd::Attempt&) -> dd::WorkResult {
          ran = true;
          return Answer();
        });
    EXPECT_EQ(outcome.status().code(), absl::StatusCode::kUnauthenticated);
    EXPECT_FALSE(ran);
  }
}

TEST_F(RefusalTest, CallRateIsKeptToWithinTheTimeout) {
  const auto client =
      Connect(NewToken({"--role=caller", "--calls-per-second-max=2"}));
  int calls = 0;
  const absl::Duration took = TimeOf([&] {
    // Several seconds' worth.
    for (; calls < 5; ++calls) {
      Expect<dd::Started>(client->Begin(BeginFor(absl::StrCat("k", calls))));
    }
  });
  EXPECT_GE(took, absl::Seconds(1));
  EXPECT_GT(sendings(), calls) << "nothing was refused";
  // The server says to wait for a second each time.
  EXPECT_LE(sendings(), calls + absl::ToInt64Seconds(took) + 1);
}

TEST_F(RefusalTest, FullQuotaIsToldWhenTheTimeIsUp) {
  const auto client = Connect(NewToken({"--role=caller", "--live-keys-max=1"}));
  const dd::BeginRequest first = BeginFor("first");
  Expect<dd::Started>(client->Begin(first));
  const int before = sendings();
  const absl::Duration took = TimeOf([&] {
    const auto refused = client->Begin(
        BeginFor("second"), {.timeout = absl::Seconds(3), .stop = {}});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted)
        << refused.status();
    EXPECT_EQ(dd::ReasonOf(refused.status()), "QUOTA");
  });
  EXPECT_THAT(took, AllOf(Ge(absl::Seconds(1)), Le(absl::Seconds(3.2))));
  EXPECT_THAT(sendings() - before, AllOf(Ge(2), Le(4)));
  // What was begun is not refused.
  EXPECT_TRUE(Expect<dd::Started>(client->Begin(first)).resumed);
}

}  // namespace
}  // namespace dedupe::testing
