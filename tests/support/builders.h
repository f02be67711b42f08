// Calls with sensible values for everything: a test changes only what it is
// about. All are within limits.h.
#ifndef DEDUPE_TESTS_SUPPORT_BUILDERS_H_
#define DEDUPE_TESTS_SUPPORT_BUILDERS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "server/service/record.h"
#include "server/service/store.h"

namespace dedupe::testing {

inline constexpr char kClient[] = "acme";
inline constexpr char kOperation[] = "POST /v1/charges";

// As long as a SHA-256, and different for different requests.
inline std::string FingerprintOf(const std::string& request) {
  std::string digest(32, '\x5a');
  return digest.replace(0, std::min(request.size(), digest.size()), request);
}

inline BeginCommand MakeBegin(std::string key, std::string attempt_id) {
  BeginCommand command;
  command.id = {kClient, std::move(key)};
  command.operation = kOperation;
  command.fingerprint = FingerprintOf("one");
  command.attempt_id = std::move(attempt_id);
  return command;
}

inline Response MakeResponse(std::string body = "done") {
  Response response;
  response.code = 201;
  response.headers = {{"content-type", "text/plain"}};
  response.body = std::move(body);
  return response;
}

// The calls that follow a Begin: about its key, in its attempt's name.
inline CompleteCommand MakeComplete(const BeginCommand& begin, int64_t fence,
                                    std::string body = "done") {
  return {begin.id, {begin.attempt_id, fence}, MakeResponse(std::move(body))};
}

inline ExtendCommand MakeExtend(const BeginCommand& begin, int64_t fence) {
  return {begin.id, {begin.attempt_id, fence}, std::nullopt, ""};
}

inline ReleaseCommand MakeRelease(const BeginCommand& begin, int64_t fence) {
  return {begin.id, {begin.attempt_id, fence}, false};
}

// A command with one change, where a name for it would say less.
template <typename Command, typename Change>
Command With(Command command, Change change) {
  change(command);
  return command;
}

// A call's scope that ends so long from now.
inline CallScope Within(absl::Duration duration) {
  return CallScope(std::chrono::steady_clock::now() +
                   absl::ToChronoNanoseconds(duration));
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_BUILDERS_H_
