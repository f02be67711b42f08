// What the client library is tried against: a real server, and a relay before
// it that can lose, delay and change what passes.
#ifndef DEDUPE_TESTS_END_TO_END_CLIENT_CLIENT_DEPLOYMENT_H_
#define DEDUPE_TESTS_END_TO_END_CLIENT_CLIENT_DEPLOYMENT_H_

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "dedupe/client.h"
#include "dedupe/key.h"
#include "tests/end_to_end/deployment.h"
#include "tests/support/relay_server.h"

namespace dedupe::testing {

using LibraryClient = ::dedupe::client::Client;

inline std::unique_ptr<LibraryClient> MakeLibraryClient(
    const std::string& target, ::dedupe::client::ClientOptions options = {}) {
  options.target = target;
  auto client = LibraryClient::Create(std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// How long it took, on the clock that nobody sets.
template <typename Function>
absl::Duration TimeOf(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return absl::FromChrono(std::chrono::steady_clock::now() - start);
}

// The alternative that it holds; a failed test and a default one if it is
// another.
template <typename Alternative, typename Variant>
Alternative Expect(const absl::StatusOr<Variant>& outcome) {
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  if (!outcome.ok()) return {};
  EXPECT_TRUE(std::holds_alternative<Alternative>(*outcome))
      << "it holds alternative " << outcome->index();
  if (!std::holds_alternative<Alternative>(*outcome)) return {};
  return std::get<Alternative>(*outcome);
}

// One server for the whole test program, a relay and a client for each test.
class ClientTest : public EndToEndTest {
 protected:
  ClientTest()
      : relay_(Shared().server().address()),
        client_(MakeLibraryClient(relay_.address())) {}

  RelayServer& relay() { return relay_; }
  LibraryClient& library() { return *client_; }

  static ::dedupe::client::BeginRequest BeginOf(const std::string& key) {
    return {.client_id = "acme",
            .key = key,
            .operation = "POST /v1/charges",
            .fingerprint = std::string(32, 'f'),
            .attempt_id = ::dedupe::client::NewAttemptId(),

            .ttl = {}};
  }

  static ::dedupe::client::CompleteRequest CompleteOf(
      const ::dedupe::client::BeginRequest& begin,
      const ::dedupe::client::Started& started) {
    return {.client_id = begin.client_id,
            .key = begin.key,
            .attempt_id = begin.attempt_id,
            .fence = started.fence,
            .response = {.code = 201,
                         .headers = {{"content-type", "text/plain"}},
                         .body = "done"}};
  }

 private:
  RelayServer relay_;
  std::unique_ptr<LibraryClient> client_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_CLIENT_CLIENT_DEPLOYMENT_H_
