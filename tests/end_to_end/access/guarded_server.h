// A server that asks for credentials, and callers that have some.
#ifndef DEDUPE_TESTS_END_TO_END_ACCESS_GUARDED_SERVER_H_
#define DEDUPE_TESTS_END_TO_END_ACCESS_GUARDED_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/end_to_end/deployment.h"
#include "tests/support/administrator.h"
#include "tests/support/grpc_client.h"

namespace dedupe::testing {

// How soon a change of who may do what has to take effect.
inline constexpr absl::Duration kEffectiveWithin = absl::Seconds(5);

class GuardedServer {
 public:
  explicit GuardedServer(std::vector<std::string> settings = {})
      : deployment_(WithAuthentication(std::move(settings))),
        administrator_(deployment_.url()) {}

  Deployment& deployment() { return deployment_; }
  const std::string& address() { return deployment_.server().address(); }
  const Administrator& administrator() const { return administrator_; }

  // A principal with a token that the server knows already.
  std::string NewToken(const std::string& principal,
                       const std::vector<std::string>& options) {
    administrator_.SetPrincipal(principal, options);
    std::string token = administrator_.CreateToken(principal);
    AwaitAccepted(token);
    return token;
  }

  // Waits until calls with this token are heard.
  void AwaitAccepted(const std::string& token) {
    Client client(address(), Identity::OfToken(token));
    ASSERT_TRUE(Await([&] {
      return client.Lookup({}).status.error_code() !=
             grpc::StatusCode::UNAUTHENTICATED;
    }));
  }
  void AwaitRefused(const std::string& token) {
    Client client(address(), Identity::OfToken(token));
    ASSERT_TRUE(Await([&] {
      return client.Lookup({}).status.error_code() ==
             grpc::StatusCode::UNAUTHENTICATED;
    }));
  }

  // False if it has not come true in time.
  static bool Await(const std::function<bool()>& condition,
                    absl::Duration limit = kEffectiveWithin) {
    const absl::Time until = absl::Now() + limit;
    while (!condition()) {
      if (absl::Now() > until) return false;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return true;
  }

 private:
  static std::vector<std::string> WithAuthentication(
      std::vector<std::string> settings) {
    settings.insert(settings.begin(), "--authentication=required");
    return settings;
  }

  Deployment deployment_;
  Administrator administrator_;
};

// One guarded server for the whole test program, without TLS, which changes
// nothing of what is tested here.
class AccessTest : public ::testing::Test {
 protected:
  static GuardedServer& Guarded() {
    // Before it, because it has to outlive it.
    PostgresCluster::Shared();
    static GuardedServer server;
    return server;
  }

  static std::unique_ptr<Client> ClientWith(const std::string& token) {
    return std::make_unique<Client>(Guarded().address(),
                                    Identity::OfToken(token));
  }

  // No other test has it.
  static std::string Name(const std::string& suffix = "") {
    const ::testing::TestInfo& test =
        *::testing::UnitTest::GetInstance()->current_test_info();
    return absl::StrCat(test.name(), suffix);
  }
  static v1::BeginRequest BeginFor(const std::string& client_id,
                                   const std::string& key = "key") {
    v1::BeginRequest begin = BeginOf(key, "attempt-1");
    begin.set_client_id(client_id);
    return begin;
  }
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_ACCESS_GUARDED_SERVER_H_
