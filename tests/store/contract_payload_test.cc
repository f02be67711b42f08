// Lookup of each state, and payloads and names that must come back as they were
// sent. See store_contract.h.
#include <gmock/gmock.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/service/limits.h"
#include "tests/store/store_contract.h"

namespace dedupe::testing {
namespace {

using ::testing::Eq;
using ::testing::Optional;

class LookupContract : public StoreContract {};
DEDUPE_CONTRACT_SUITE(LookupContract);
class PayloadContract : public StoreContract {
 protected:
  // Completes a key with it and returns what a later Begin is given.
  Response Replayed(const Response& response) {
    const int64_t fence = Start(By("a1"));
    CompleteCommand complete = MakeComplete(By("a1"), fence);
    complete.response = response;
    EXPECT_THAT(store_.Complete(complete), IsOk());
    EXPECT_THAT(Look(By("a1")).response, Optional(response));
    // The repetition compares all of it.
    const auto again = store_.Complete(complete);
    EXPECT_TRUE(again.ok() && again->already_completed);
    return Get<Replay>(store_.Begin(By("a2"))).response;
  }
};
DEDUPE_CONTRACT_SUITE(PayloadContract);
class KeyContract : public StoreContract {};
DEDUPE_CONTRACT_SUITE(KeyContract);

std::string AllBytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST_P(LookupContract, UnknownKeyIsAbsent) {
  LookupAnswer expected;
  expected.state = RecordState::kAbsent;
  expected.decided_at = Now();
  EXPECT_EQ(Look(By("a1")), expected);
}

TEST_P(LookupContract, ShowsTheHolderOfALease) {
  Start(By("a1"));
  LookupAnswer expected;
  expected.state = RecordState::kInProgress;
  expected.operation = kOperation;
  expected.attempt_number = 1;
  expected.created_at = expected.started_at = Now();
  expected.lease_expires_at = Now() + absl::Seconds(30);
  expected.expires_at = Now() + absl::Seconds(30) + absl::Hours(24);
  // Lapsed or not, which decided_at tells.
  for (const absl::Duration later : {absl::Seconds(1), absl::Hours(1)}) {
    Advance(later);
    expected.decided_at = Now();
    EXPECT_EQ(Look(By("a1")), expected);
  }
}

TEST_P(LookupContract, ShowsTheSecondHolder) {
  const absl::Time first_seen = Now();
  TakeOver(By("a1"), By("a2"));
  const LookupAnswer answer = Look(By("a1"));
  EXPECT_EQ(answer.attempt_number, 2);
  EXPECT_THAT(answer.created_at, Optional(first_seen));
  EXPECT_THAT(answer.started_at, Optional(Now()));
}

TEST_P(LookupContract, ShowsARelease) {
  const absl::Time began = Now();
  const int64_t fence = Start(By("a1"));
  Advance(absl::Seconds(1));
  ASSERT_THAT(store_.Release(MakeRelease(By("a1"), fence)), IsOk());
  LookupAnswer expected;
  expected.state = RecordState::kReleased;
  expected.operation = kOperation;
  expected.attempt_number = 1;
  expected.created_at = expected.started_at = began;
  expected.expires_at = Now() + absl::Hours(24);
  expected.decided_at = Now();
  EXPECT_EQ(Look(By("a1")), expected);
}

TEST_P(LookupContract, ShowsDoubt) {
  const BeginCommand holding =
      With(By("a1"), [](auto& c) { c.on_lease_expiry = OnLeaseExpiry::kHold; });
  Start(holding);
  EXPECT_EQ(Look(holding).state, RecordState::kInProgress);
  EXPECT_THAT(Look(holding).expires_at, Eq(std::nullopt));
  const absl::Time lapses = Now() + absl::Seconds(30);
  Advance(absl::Hours(24 * 60));
  const LookupAnswer answer = Look(holding);
  EXPECT_EQ(answer.state, RecordState::kInDoubt);
  EXPECT_THAT(answer.lease_expires_at, Optional(lapses));
  EXPECT_THAT(answer.expires_at, Eq(std::nullopt));
}

TEST_P(LookupContract, ShowsACompletion) {
  const absl::Time began = Now();
  const int64_t fence = Start(By("a1"));
  Advance(absl::Seconds(1));
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence)), IsOk());
  LookupAnswer expected;
  expected.state = RecordState::kCompleted;
  expected.operation = kOperation;
  expected.attempt_number = 1;
  expected.created_at = expected.started_at = began;
  expected.completed_at = Now();
  expected.expires_at = Now() + absl::Hours(24);
  expected.response = MakeResponse();
  Advance(absl::Seconds(1));
  expected.decided_at = Now();
  EXPECT_EQ(Look(By("a1")), expected);
  // Whoever only watches is spared the response.
  expected.response.reset();
  const auto watched = store_.Watch(By("a1").id);
  ASSERT_THAT(watched, IsOk());
  EXPECT_EQ(*watched, expected);
}

TEST_P(LookupContract, PastItsWindowAKeyIsAbsent) {
  const BeginCommand begin =
      With(By("a1"), [](auto& c) { c.ttl = absl::Seconds(1); });
  const int64_t fence = Start(begin);
  ASSERT_THAT(store_.Complete(MakeComplete(begin, fence)), IsOk());
  Advance(absl::Seconds(1) - absl::Microseconds(1));
  EXPECT_EQ(Look(begin).state, RecordState::kCompleted);
  Advance(absl::Microseconds(1));
  LookupAnswer expected;
  expected.decided_at = Now();
  EXPECT_EQ(Look(begin), expected);
}

TEST_P(PayloadContract, EveryByteOfTheBodyComesBack) {
  Response response = MakeResponse(AllBytes() + AllBytes());
  EXPECT_EQ(Replayed(response), response);
}

TEST_P(PayloadContract, JsonIsNotTouched) {
  const Response response = MakeResponse(R"({"b":1, "a":1.0,"a":2}  )");
  EXPECT_EQ(Replayed(response), response);
}

TEST_P(PayloadContract, EmptyBodyIsThere) {
  const Response response = MakeResponse("");
  const Response replayed = Replayed(response);
  EXPECT_EQ(replayed, response);
  EXPECT_FALSE(replayed.body_omitted);
}

TEST_P(PayloadContract, OmittedBodyIsNotAnEmptyOne) {
  Response response = MakeResponse("");
  response.body_omitted = true;
  EXPECT_TRUE(Replayed(response).body_omitted);
  const int64_t fence = Get<Started>(store_.Begin(By("a3", "k2"))).fence;
  CompleteCommand complete = MakeComplete(By("a3", "k2"), fence, "");
  ASSERT_THAT(store_.Complete(complete), IsOk());
  complete.response.body_omitted = true;
  EXPECT_THAT(store_.Complete(complete), RefusedAs(Reason::kResponseConflict));
}

TEST_P(PayloadContract, ResponseMayBeAsEmptyAsCanBe) {
  EXPECT_EQ(Replayed(Response()), Response());
}

TEST_P(PayloadContract, CodesAreAnyNumber) {
  Response response;
  response.code = INT32_MIN;
  EXPECT_EQ(Replayed(response), response);
}

TEST_P(PayloadContract, HeadersKeepOrderRepetitionAndSpelling) {
  Response response = MakeResponse();
  response.headers = {
      {"b", "2"},         {"a", "1"},      {"b", "2"},
      {"B", ""},          {"a", "0.10"},   {"c", "\""},
      {"d", "\\u0041\\"}, {"e", "null"},   {"f", "é€😀"},
      {"\"", " x "},      {"g", "{},[]'"}, {"h", std::string(1, ' ')}};
  EXPECT_EQ(Replayed(response), response);
}

TEST_P(PayloadContract, LargestResponseFits) {
  std::mt19937 random(1);
  Response response = MakeResponse("");
  for (size_t i = 0; i < kBodyBytesMax; ++i) {
    response.body += static_cast<char>(random());
  }
  response.headers.clear();
  for (size_t i = 0; i < kHeadersMax; ++i) {
    const std::string name = absl::StrCat("n", i);
    // One escape for each byte is the most that they can grow.
    response.headers.push_back(
        {name, std::string(kHeadersBytesMax / kHeadersMax - name.size(), '"')});
  }
  EXPECT_EQ(Replayed(response), response);
}

TEST_P(PayloadContract, CheckpointIsAnyBytes) {
  const int64_t fence = Start(By("a1"));
  for (const std::string& checkpoint :
       {AllBytes(), std::string(1, '\0'),
        std::string(kCheckpointBytesMax, 'x')}) {
    ASSERT_THAT(
        store_.Extend(With(MakeExtend(By("a1"), fence),
                           [&](auto& c) { c.checkpoint = checkpoint; })),
        IsOk());
    EXPECT_EQ(Get<Started>(store_.Begin(By("a1"))).checkpoint, checkpoint);
  }
}

TEST_P(PayloadContract, FingerprintIsAnyBytes) {
  const auto with = [this](std::string fingerprint) {
    return With(By("a1"), [&](auto& c) { c.fingerprint = fingerprint; });
  };
  Start(with(std::string("x\0y", 3)));
  EXPECT_TRUE(Is<Started>(store_.Begin(with(std::string("x\0y", 3)))));
  for (const std::string& other :
       {std::string("x"), std::string("x\0", 2), std::string("x\0z", 3),
        std::string("x\0y\0", 4)}) {
    EXPECT_TRUE(Is<Mismatch>(store_.Begin(with(other)))) << other.size();
  }
}

// What an array's text form, a delimiter or a decoder could mistake for
// something else, and what only looks alike.
TEST_P(KeyContract, KeysAreComparedByteForByte) {
  const std::vector<std::string> keys = {"a/b",
                                         "a%2Fb",
                                         "a%2fb",
                                         "a b",
                                         "a+b",
                                         "a%20b",
                                         "NULL",
                                         "null",
                                         "\"",
                                         "\\",
                                         "\\\\",
                                         "{}",
                                         "{a,b}",
                                         ",",
                                         "'",
                                         "''",
                                         "$1",
                                         ":",
                                         "   ",
                                         " a",
                                         "a",
                                         "a ",
                                         "A",
                                         "é",
                                         "e\u0301",
                                         "а",
                                         "%",
                                         "_",
                                         "1-1",
                                         "11",
                                         "\u200b",
                                         "\xf0\x9f\x98\x80",
                                         std::string(255, 'x')};
  for (const std::string& key : keys) {
    EXPECT_TRUE(Is<Started>(store_.Begin(By("a1", key)))) << key;
  }
  for (const std::string& key : keys) {
    EXPECT_TRUE(Is<InProgress>(store_.Begin(By("a2", key)))) << key;
    EXPECT_EQ(Look(By("a2", key)).attempt_number, 1) << key;
  }
}

TEST_P(KeyContract, PairsDoNotRunIntoEachOther) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {":b", "c"}, {"", "b:c"}, {"/", "b"},  {"|", "/b"}, {"/|", "b"},
      {"", "/b"},  {":", ":"},  {"::", ":"}, {":", "::"}};
  for (const auto& [suffix, key] : pairs) {
    BeginCommand begin = By("a1", key);
    begin.id.client_id += suffix;
    EXPECT_TRUE(Is<Started>(store_.Begin(begin))) << suffix << " " << key;
  }
}

TEST_P(KeyContract, ClientsDoNotSeeEachOther) {
  const int64_t fence = Start(By("a1"));
  ASSERT_THAT(store_.Complete(MakeComplete(By("a1"), fence, "secret")), IsOk());
  BeginCommand stranger = By("a1");
  stranger.id.client_id += "-globex";
  EXPECT_EQ(Look(stranger).state, RecordState::kAbsent);
  EXPECT_THAT(store_.Complete(MakeComplete(stranger, fence, "secret")),
              RefusedAs(Reason::kKeyUnknown));
  EXPECT_EQ(Get<Started>(store_.Begin(stranger)).attempt_number, 1);
  EXPECT_EQ(Look(stranger).response, std::nullopt);
  EXPECT_THAT(Look(By("a1")).response, Optional(MakeResponse("secret")));
}

TEST_P(KeyContract, OperationIsAnyText) {
  for (const char* operation : {"", "NULL", "a\\\"b,{}", "POST /é?x=1&y=%20"}) {
    const BeginCommand begin = With(By("a1", absl::StrCat("k", operation)),
                                    [&](auto& c) { c.operation = operation; });
    Start(begin);
    EXPECT_EQ(Look(begin).operation, operation);
  }
}

}  // namespace
}  // namespace dedupe::testing
