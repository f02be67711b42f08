// Outcomes as HTTP answers, and what of an answer is stored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dedupe/http.h"
#include "dedupe/outcome.h"
#include "dedupe/response.h"

namespace dedupe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr HttpProfile kProfiles[] = {
    HttpProfile::kIetf, HttpProfile::kConflict409, HttpProfile::kStripe};

// Must never be shown.
constexpr char kInside[] = "connection to 10.1.2.3 refused";

Response Charge() {
  return {201,
          {{"Content-Type", "application/json"}, {"Location", "/charges/1"}},
          R"({"charge":1})",
          false};
}

Replay Stored(Response response) {
  Replay replay;
  replay.response = std::move(response);
  return replay;
}

InProgress Busy(absl::Duration retry_after) {
  InProgress in_progress;
  in_progress.retry_after = retry_after;
  return in_progress;
}

std::string HeaderOf(const Response& response, absl::string_view name) {
  std::vector<std::string> values;
  for (const Header& header : response.headers) {
    if (absl::EqualsIgnoreCase(header.name, name)) {
      values.push_back(header.value);
    }
  }
  return absl::StrJoin(values, " and ");
}

// Its members' values; a failure if it is not a problem as RFC 9457 has it.
nlohmann::json ReadProblem(const Response& response) {
  EXPECT_EQ(HeaderOf(response, "Content-Type"), "application/problem+json");
  auto body = nlohmann::json::parse(response.body, nullptr, false);
  EXPECT_TRUE(body.is_object()) << response.body;
  if (!body.is_object()) return {};
  std::vector<std::string> names;
  for (const auto& [name, value] : body.items()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("detail", "status", "title", "type"));
  EXPECT_EQ(body.value("status", 0), response.code);
  EXPECT_NE(body.value("title", ""), "");
  EXPECT_NE(body.value("detail", ""), "");
  EXPECT_THAT(response.body, Not(HasSubstr("10.1.2.3")));
  return body;
}

// --- Outcomes ----------------------------------------------------------------

// What an outcome comes to, as one line.
std::string Summary(const Response& response) {
  std::string line = absl::StrCat(response.code);
  const std::string retry_after = HeaderOf(response, "Retry-After");
  const std::string replayed = HeaderOf(response, kReplayedHeader);
  if (!retry_after.empty()) absl::StrAppend(&line, " after ", retry_after);
  if (!replayed.empty()) absl::StrAppend(&line, " replayed ", replayed);
  if (response.body == Charge().body) return absl::StrCat(line, " own");
  return absl::StrCat(line, " ",
                      ReadProblem(response).value("type", "without a type"));
}

struct Case {
  const char* name;
  absl::StatusOr<RunOnceOutcome> outcome;
  // Under each of kProfiles.
  std::vector<std::string> answers;
};

std::vector<std::string> Thrice(const std::string& answer) {
  return {answer, answer, answer};
}

std::vector<Case> EveryOutcome() {
  const auto unavailable = absl::UnavailableError(kInside);
  return {
      {"Ran", Ran{Charge(), {}, {}, false}, Thrice("201 own")},
      {"NotRecorded", NotRecorded{Charge(), unavailable}, Thrice("201 own")},
      {"Replay", Stored(Charge()), Thrice("201 replayed true own")},
      {"InProgress", Busy(absl::Seconds(3)),
       Thrice("409 after 3 urn:dedupe:problem:in-progress")},
      {"Mismatch",
       Mismatch{},
       {"422 urn:dedupe:problem:mismatch", "409 urn:dedupe:problem:mismatch",
        "422 urn:dedupe:problem:mismatch"}},
      {"InDoubt", InDoubt{}, Thrice("409 urn:dedupe:problem:in-doubt")},
      {"Freed", Freed{}, Thrice("503 after 1 urn:dedupe:problem:not-run")},
      {"Freed with an answer", Freed{Charge()}, Thrice("201 own")},
      {"Unknown", Unknown{unavailable},
       Thrice("503 after 1 urn:dedupe:problem:unknown")},
      {"kInvalidArgument", absl::InvalidArgumentError(kInside),
       Thrice("400 urn:dedupe:problem:refused")},
      {"kResourceExhausted", absl::ResourceExhaustedError(kInside),
       Thrice("503 after 1 urn:dedupe:problem:overloaded")},
      {"kUnavailable", absl::UnavailableError(kInside),
       Thrice("503 after 1 urn:dedupe:problem:not-run")},
      {"kCancelled", absl::CancelledError(kInside),
       Thrice("503 after 1 urn:dedupe:problem:not-run")},
  };
}

TEST(ToHttpTest, AnswersEveryOutcomeUnderEveryProfile) {
  std::set<size_t> alternatives;
  for (const Case& each : EveryOutcome()) {
    for (size_t i = 0; i < std::size(kProfiles); ++i) {
      EXPECT_EQ(Summary(ToHttp(each.outcome, kProfiles[i])), each.answers[i])
          << each.name;
    }
    if (each.outcome.ok()) alternatives.insert(each.outcome->index());
  }
  EXPECT_EQ(alternatives.size(), std::variant_size_v<RunOnceOutcome>);
}

TEST(ToHttpTest, OtherErrorsAreTheServicesOwnFault) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kFailedPrecondition, absl::StatusCode::kInternal,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kUnauthenticated, absl::StatusCode::kUnknown}) {
    const absl::StatusOr<RunOnceOutcome> error = absl::Status(code, kInside);
    for (const HttpProfile profile : kProfiles) {
      EXPECT_EQ(Summary(ToHttp(error, profile)),
                "500 urn:dedupe:problem:internal");
    }
  }
}

TEST(ToHttpTest, RetryAfterIsRoundedUpToWholeSeconds) {
  const std::pair<absl::Duration, const char*> cases[] = {
      {absl::Nanoseconds(1), "1"},   {absl::Milliseconds(999), "1"},
      {absl::Seconds(1), "1"},       {absl::Milliseconds(1001), "2"},
      {absl::Minutes(15), "900"},    {absl::ZeroDuration(), "1"},
      {absl::Milliseconds(-1), "1"},
  };
  for (const auto& [retry_after, header] : cases) {
    const Response answer = ToHttp(Busy(retry_after), HttpProfile::kIetf);
    EXPECT_EQ(HeaderOf(answer, "Retry-After"), header) << retry_after;
  }
}

TEST(ToHttpTest, ReplayIsTheStoredAnswerByteForByte) {
  Response stored{402,
                  {{"X-Two", "b"}, {"x-one", ""}, {"X-Two", "a"}},
                  std::string("\0\xff{", 3),
                  false};
  const Response answer = ToHttp(Stored(stored), HttpProfile::kIetf);
  stored.headers.push_back({kReplayedHeader, "true"});
  EXPECT_EQ(answer, stored);
}

TEST(ToHttpTest, ReplayedIsSaidOnce) {
  Response stored = Charge();
  stored.headers.push_back({"idempotent-replayed", "false"});
  const Response answer = ToHttp(Stored(stored), HttpProfile::kIetf);
  EXPECT_EQ(HeaderOf(answer, kReplayedHeader), "true");
}

TEST(ToHttpTest, ReplayWithoutItsBodySaysSo) {
  Response stored = Charge();
  stored.body.clear();
  stored.body_omitted = true;
  stored.headers.push_back({"content-encoding", "gzip"});
  stored.headers.push_back({"ETag", "\"1\""});
  const Response answer = ToHttp(Stored(stored), HttpProfile::kIetf);
  EXPECT_EQ(Summary(answer),
            "201 replayed true urn:dedupe:problem:body-omitted");
  EXPECT_EQ(HeaderOf(answer, "Location"), "/charges/1");
  // They speak of the body that is not there.
  EXPECT_EQ(HeaderOf(answer, "Content-Encoding"), "");
  EXPECT_EQ(HeaderOf(answer, "ETag"), "");
  EXPECT_FALSE(answer.body_omitted);
}

TEST(ToHttpTest, InDoubtHasNoRetryAfter) {
  const Response answer = ToHttp(InDoubt{}, HttpProfile::kIetf);
  EXPECT_EQ(HeaderOf(answer, "Retry-After"), "");
}

// --- Keys --------------------------------------------------------------------

TEST(AnswerKeyTest, MissingIsABadRequest) {
  EXPECT_EQ(Summary(AnswerKeyMissing()), "400 urn:dedupe:problem:key-missing");
}

TEST(AnswerKeyTest, MalformedIsABadRequestThatTellsWhy) {
  const Response answer = AnswerKeyMalformed({"the string is not closed"});
  EXPECT_EQ(Summary(answer), "400 urn:dedupe:problem:key-malformed");
  EXPECT_THAT(ReadProblem(answer).value("detail", ""),
              HasSubstr("the string is not closed"));
}

TEST(ProblemTest, EscapesAndReplacesWhatJsonCannotHold) {
  const Response answer = Problem(418, "about:blank", "a \"b\"\n", "c\xff");
  const auto body = ReadProblem(answer);
  EXPECT_EQ(answer.code, 418);
  EXPECT_EQ(body.value("type", ""), "about:blank");
  EXPECT_EQ(body.value("title", ""), "a \"b\"\n");
  EXPECT_EQ(body.value("detail", ""), "c\ufffd");
}

// --- Settling ----------------------------------------------------------------

TEST(IsFinalTest, HoldsForEveryStatus) {
  const std::set<int> repeatable = {401, 403, 408, 409, 419, 425, 429};
  for (int status = 100; status <= 599; ++status) {
    const bool ietf =
        status >= 200 && status < 500 && !repeatable.contains(status);
    EXPECT_EQ(IsFinal(status, HttpProfile::kIetf), ietf) << status;
    EXPECT_EQ(IsFinal(status, HttpProfile::kConflict409), ietf) << status;
    EXPECT_EQ(IsFinal(status, HttpProfile::kStripe), ietf || status >= 500)
        << status;
  }
}

TEST(IsFinalTest, WhatIsNoStatusIsNotFinal) {
  for (const int status : {-200, 0, 99, 600, 1000}) {
    for (const HttpProfile profile : kProfiles) {
      EXPECT_FALSE(IsFinal(status, profile)) << status;
    }
  }
}

TEST(IsStoredHeaderTest, ComparesWithoutRegardToCase) {
  for (const char* name :
       {"Set-Cookie", "Authorization", "Proxy-Authorization",
        "WWW-Authenticate", "Authentication-Info", "Cookie", "Date",
        "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length",
        "Idempotent-Replayed", "set-cookie", "SET-COOKIE", "sEt-cOOkie",
        "content-length", "idempotent-replayed"}) {
    EXPECT_FALSE(IsStoredHeader(name)) << name;
  }
  for (const char* name : {"Content-Type", "Location", "ETag", "X-Set-Cookie",
                           "Set-Cookie2x", "Dat", "Dates", ""}) {
    EXPECT_TRUE(IsStoredHeader(name)) << name;
  }
}

TEST(SettleTest, FinalAnswersAreDoneWithoutWhatIsNotStored) {
  Response answer = Charge();
  answer.headers.insert(answer.headers.begin(), {"SET-cookie", "session=1"});
  answer.headers.push_back({"Authorization", "Bearer x"});
  const WorkResult result = Settle(answer, HttpProfile::kIetf);
  ASSERT_TRUE(std::holds_alternative<Done>(result));
  EXPECT_EQ(std::get<Done>(result).response, Charge());
}

TEST(SettleTest, RefusalsThatRepeatingRepeatsAreDone) {
  for (const int status : {200, 303, 400, 402, 404, 422}) {
    EXPECT_TRUE(std::holds_alternative<Done>(
        Settle(Response{status, {}, "", false}, HttpProfile::kIetf)))
        << status;
  }
}

TEST(SettleTest, OtherAnswersFreeTheKeyAndAreKeptWhole) {
  Response answer = Charge();
  answer.code = 503;
  answer.headers.push_back({"Set-Cookie", "session=1"});
  const WorkResult result = Settle(answer, HttpProfile::kIetf);
  ASSERT_TRUE(std::holds_alternative<NothingHappened>(result));
  EXPECT_EQ(std::get<NothingHappened>(result).answer, answer);
}

TEST(SettleTest, StripeStoresServerErrors) {
  Response answer = Charge();
  answer.code = 500;
  EXPECT_TRUE(
      std::holds_alternative<Done>(Settle(answer, HttpProfile::kStripe)));
  answer.code = 429;
  EXPECT_TRUE(std::holds_alternative<NothingHappened>(
      Settle(answer, HttpProfile::kStripe)));
}

}  // namespace
}  // namespace dedupe::client
