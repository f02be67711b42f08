// Each call of Client against a real server, and what it does when the network
// or the server is in its way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "dedupe/client.h"
#include "tests/end_to_end/client/client_deployment.h"

namespace dedupe::testing {
namespace {

namespace dd = ::dedupe::client;

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::Le;
using ::testing::SizeIs;

using CallsTest = ClientTest;

TEST_F(CallsTest, KeyLivesThroughItsOutcomes) {
  dd::BeginRequest begin = BeginOf(Key());
  const auto started = Expect<dd::Started>(library().Begin(begin));
  EXPECT_GT(started.fence, 0);
  EXPECT_EQ(started.attempt_number, 1);
  EXPECT_FALSE(started.taken_over);
  EXPECT_GT(started.holds_until, std::chrono::steady_clock::now());
  const auto in_progress =
      Expect<dd::InProgress>(library().Begin(BeginOf(Key())));
  EXPECT_GT(in_progress.retry_after, absl::ZeroDuration());

  const auto completed =
      Expect<dd::Completed>(library().Complete(CompleteOf(begin, started)));
  EXPECT_FALSE(completed.already_completed);
  EXPECT_EQ(completed.expires_at - completed.completed_at, absl::Hours(24));
  const auto replay = Expect<dd::Replay>(library().Begin(BeginOf(Key())));
  EXPECT_EQ(replay.response, CompleteOf(begin, started).response);

  dd::BeginRequest other = BeginOf(Key());
  other.fingerprint = "other";
  Expect<dd::Mismatch>(library().Begin(other));
  const absl::StatusOr<dd::Record> record = library().Lookup("acme", Key());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->state, dd::RecordState::kCompleted);
  EXPECT_EQ(record->response, CompleteOf(begin, started).response);
}

TEST_F(CallsTest, ExtendRenewsAndLeavesACheckpoint) {
  dd::BeginRequest begin = BeginOf(Key());
  begin.lease = absl::Milliseconds(300);
  const auto started = Expect<dd::Started>(library().Begin(begin));
  const auto extended =
      Expect<dd::Extended>(library().Extend({.client_id = begin.client_id,
                                             .key = begin.key,
                                             .attempt_id = begin.attempt_id,
                                             .fence = started.fence,
                                             .lease = absl::Milliseconds(400),
                                             .checkpoint = "half"}));
  EXPECT_GT(extended.holds_until, started.holds_until);
  absl::SleepFor(absl::Milliseconds(500));
  const auto next = Expect<dd::Started>(library().Begin(BeginOf(Key())));
  EXPECT_TRUE(next.taken_over);
  EXPECT_EQ(next.checkpoint, "half");
  EXPECT_EQ(Expect<dd::Refused>(library().Complete(CompleteOf(begin, started))),
            dd::Refused{dd::Refused::Reason::kLeaseLost});
}

TEST_F(CallsTest, ReleaseFreesTheKeyAndUsesTheAttemptUp) {
  const dd::BeginRequest begin = BeginOf(Key());
  const auto started = Expect<dd::Started>(library().Begin(begin));
  Expect<dd::Released>(library().Release({.client_id = begin.client_id,
                                          .key = begin.key,
                                          .attempt_id = begin.attempt_id,
                                          .fence = started.fence}));
  const auto late = library().Begin(begin);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(dd::ReasonOf(late.status()), "ATTEMPT_FINISHED");
  EXPECT_GT(Expect<dd::Started>(library().Begin(BeginOf(Key()))).fence,
            started.fence);
}

TEST_F(CallsTest, LapsedHoldIsInDoubt) {
  dd::BeginRequest begin = BeginOf(Key());
  begin.lease = absl::Milliseconds(100);
  begin.on_lease_expiry = dd::OnLeaseExpiry::kHold;
  Expect<dd::Started>(library().Begin(begin));
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(Expect<dd::InDoubt>(library().Begin(BeginOf(Key()))).attempt_number,
            1);
}

TEST_F(CallsTest, RefusalsOfCompleteAreValues) {
  const dd::BeginRequest begin = BeginOf(Key());
  const auto started = Expect<dd::Started>(library().Begin(begin));
  dd::CompleteRequest complete = CompleteOf(begin, started);
  Expect<dd::Completed>(library().Complete(complete));
  complete.response.body = "another";
  EXPECT_EQ(Expect<dd::Refused>(library().Complete(complete)),
            dd::Refused{dd::Refused::Reason::kResponseConflict});
  EXPECT_EQ(
      Expect<dd::Refused>(library().Release({.client_id = begin.client_id,
                                             .key = begin.key,
                                             .attempt_id = begin.attempt_id,
                                             .fence = started.fence})),
      dd::Refused{dd::Refused::Reason::kAlreadyCompleted});
  complete.key = "never seen";
  EXPECT_EQ(Expect<dd::Refused>(library().Complete(complete)),
            dd::Refused{dd::Refused::Reason::kKeyUnknown});
}

// Of a call that was repeated, every sending is the same, byte for byte.
void ExpectTheSameSendings(const std::vector<RelayServer::Seen>& seen) {
  ASSERT_FALSE(seen.empty());
  EXPECT_THAT(seen, Each(Field(&RelayServer::Seen::request, seen[0].request)));
}

TEST_F(CallsTest, LostAnswerIsAskedForAgainBySameAttempt) {
  relay().Set([](const std::string&, int n) {
    RelayServer::Fate fate;
    if (n <= 2) fate.instead_of_answer = {grpc::StatusCode::UNAVAILABLE, "cut"};
    return fate;
  });
  const dd::BeginRequest begin = BeginOf(Key());
  const auto started = Expect<dd::Started>(library().Begin(begin));
  EXPECT_TRUE(started.resumed);
  EXPECT_EQ(started.attempt_number, 1);
  EXPECT_THAT(relay().seen(), SizeIs(3));
  ExpectTheSameSendings(relay().seen());

  const auto completed =
      Expect<dd::Completed>(library().Complete(CompleteOf(begin, started)));
  EXPECT_TRUE(completed.already_completed);
  ExpectTheSameSendings(relay().seen("Complete"));
}

TEST_F(CallsTest, AnswerThatNeverComesIsUnknown) {
  relay().Set([](const std::string&, int) {
    return RelayServer::Fate{.instead_of_answer = grpc::Status(
                                 grpc::StatusCode::UNAVAILABLE, "cut")};
  });
  const dd::CallOptions soon{.timeout = absl::Seconds(1)};
  const dd::BeginRequest begin = BeginOf(Key());
  EXPECT_EQ(Expect<dd::Unknown>(library().Begin(begin, soon)).status.code(),
            absl::StatusCode::kUnavailable);
  EXPECT_THAT(relay().seen(), SizeIs(Ge(3u)));
  ExpectTheSameSendings(relay().seen());
  const absl::StatusOr<dd::Record> record =
      library().Lookup("acme", Key(), soon);
  EXPECT_EQ(record.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CallsTest, ErrorsOfWhatIsOnTheWayAreOpenAndRepeated) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN,
        grpc::StatusCode::CANCELLED, grpc::StatusCode::DEADLINE_EXCEEDED,
        grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::NOT_FOUND}) {
    relay().Set([code](const std::string&, int n) {
      RelayServer::Fate fate;
      if (n == 1) fate.instead_of_answer = {code, "a proxy's"};
      return fate;
    });
    const auto started =
        Expect<dd::Started>(library().Begin(BeginOf(Key(absl::StrCat(code)))));
    EXPECT_TRUE(started.resumed) << code;
  }
}

TEST_F(CallsTest, DefiniteErrorsAreNotRepeated) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::INTERNAL,
        grpc::StatusCode::FAILED_PRECONDITION,
        grpc::StatusCode::PERMISSION_DENIED}) {
    relay().Set([code](const std::string&, int) {
      return RelayServer::Fate{.instead_of_call = DedupeError(code, "REASON")};
    });
    const size_t before = relay().seen().size();
    const auto outcome = library().Begin(BeginOf(Key()));
    EXPECT_EQ(static_cast<int>(outcome.status().code()), code);
    EXPECT_EQ(dd::ReasonOf(outcome.status()), "REASON");
    EXPECT_EQ(relay().seen().size(), before + 1) << code;
  }
}

TEST_F(CallsTest, ServersOwnRulesReachTheCaller) {
  dd::BeginRequest begin = BeginOf("");
  EXPECT_EQ(dd::ReasonOf(library().Begin(begin).status()), "KEY_EMPTY");
  begin = BeginOf(Key());
  begin.lease = absl::ZeroDuration();
  EXPECT_EQ(dd::ReasonOf(library().Begin(begin).status()), "LEASE_RANGE");
  EXPECT_THAT(relay().seen(), SizeIs(2));
}

// Text that is not UTF-8 cannot be sent as a string; the key must not be cut or
// changed on the way.
TEST_F(CallsTest, KeyThatIsNotUtf8IsRefusedAtOnce) {
  for (const std::string key : {"\xff\xfe", "\xed\xa0\x80", "\xc0\x80"}) {
    const auto outcome = library().Begin(BeginOf(key));
    EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(relay().seen(), SizeIs(Le(3u)));
}

TEST_F(CallsTest, MismatchIsAValueAfterOneCall) {
  Expect<dd::Started>(library().Begin(BeginOf(Key())));
  dd::BeginRequest other = BeginOf(Key());
  other.fingerprint = "other";
  Expect<dd::Mismatch>(library().Begin(other));
  EXPECT_THAT(relay().seen(), SizeIs(2));
}

TEST_F(CallsTest, OverloadIsWaitedOut) {
  relay().Set([](const std::string&, int n) {
    RelayServer::Fate fate;
    if (n <= 2) {
      fate.instead_of_call = DedupeError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                         "OVERLOADED", absl::Milliseconds(200));
    }
    return fate;
  });
  EXPECT_FALSE(Expect<dd::Started>(library().Begin(BeginOf(Key()))).resumed);
  const auto seen = relay().seen();
  ASSERT_THAT(seen, SizeIs(3));
  for (size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GE(absl::FromChrono(seen[i].arrived_at - seen[i - 1].arrived_at),
              absl::Milliseconds(199));
  }
}

TEST_F(CallsTest, OverloadToTheEndIsDefinite) {
  relay().Set([](const std::string&, int) {
    return RelayServer::Fate{
        .instead_of_call = DedupeError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                       "OVERLOADED", absl::Milliseconds(100))};
  });
  const auto outcome =
      library().Begin(BeginOf(Key()), {.timeout = absl::Milliseconds(700)});
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(dd::ReasonOf(outcome.status()), "OVERLOADED");
}

// Somewhere between the tries it may have been done.
TEST_F(CallsTest, OverloadAfterALostAnswerIsUnknown) {
  relay().Set([](const std::string&, int n) {
    RelayServer::Fate fate;
    if (n == 1) {
      fate.instead_of_answer = {grpc::StatusCode::UNAVAILABLE, "cut"};
    } else {
      fate.instead_of_call = DedupeError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                         "OVERLOADED", absl::Milliseconds(100));
    }
    return fate;
  });
  Expect<dd::Unknown>(
      library().Begin(BeginOf(Key()), {.timeout = absl::Milliseconds(700)}));
}

// The first sending was carried out; the second is turned away by something on
// the way, which knows nothing of the first.
TEST_F(CallsTest, RefusalOfOthersAfterALostAnswerIsUnknown) {
  const dd::BeginRequest begin = BeginOf(Key());
  const auto started = Expect<dd::Started>(library().Begin(begin));
  relay().Set([](const std::string&, int n) {
    RelayServer::Fate fate;
    if (n == 1) {
      fate.instead_of_answer = {grpc::StatusCode::UNAVAILABLE, "cut"};
    } else {
      fate.instead_of_call = {grpc::StatusCode::PERMISSION_DENIED, "a proxy's"};
    }
    return fate;
  });
  EXPECT_EQ(Expect<dd::Unknown>(library().Complete(CompleteOf(begin, started)))
                .status.code(),
            absl::StatusCode::kUnavailable);
}

// A newer server's outcome: not to be taken for any that is known.
TEST_F(CallsTest, OutcomeOfAnUnknownKindIsUnknownAndNotRepeated) {
  relay().Set([](const std::string&, int) {
    return RelayServer::Fate{.change_answer = [](auto& message) {
      message.Clear();
      // Field 99, a message.
      ASSERT_TRUE(message.ParseFromString(std::string("\x9a\x06\x00", 3)));
    }};
  });
  Expect<dd::Unknown>(library().Begin(BeginOf(Key())));
  EXPECT_THAT(relay().seen(), SizeIs(1));
  const auto record = library().Lookup("acme", Key());
  EXPECT_EQ(record.status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(CallsTest, LeaseCountsFromTheSending) {
  relay().Set([](const std::string&, int) {
    return RelayServer::Fate{.delay_of_answer = absl::Milliseconds(600)};
  });
  dd::BeginRequest begin = BeginOf(Key());
  begin.lease = absl::Seconds(2);
  const auto before = std::chrono::steady_clock::now();
  const auto started = Expect<dd::Started>(library().Begin(begin));
  EXPECT_THAT(absl::FromChrono(started.holds_until - before),
              AllOf(Gt(absl::Seconds(1.9)), Le(absl::Seconds(2.1))));
}

TEST_F(CallsTest, StopTokenEndsACallAtOnce) {
  relay().Set([](const std::string&, int) {
    return RelayServer::Fate{.delay_of_call = absl::Seconds(30)};
  });
  std::stop_source stop;
  std::thread stopper([&] {
    absl::SleepFor(absl::Milliseconds(200));
    stop.request_stop();
  });
  const absl::Duration took = TimeOf([&] {
    Expect<dd::Unknown>(
        library().Begin(BeginOf(Key()), {.stop = stop.get_token()}));
  });
  stopper.join();
  EXPECT_THAT(took, AllOf(Ge(absl::Milliseconds(200)), Le(absl::Seconds(1))));
}

TEST(ClientOptionsTest, BoundsAreChecked) {
  const auto is_refused = [](dd::ClientOptions options) {
    return LibraryClient::Create(std::move(options)).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(is_refused({}));
  EXPECT_TRUE(is_refused({.target = "a:1", .timeout = absl::ZeroDuration()}));
  EXPECT_TRUE(is_refused({.target = "a:1", .timeout = absl::Seconds(61)}));
  EXPECT_TRUE(is_refused({.target = "a:1", .try_timeout = -absl::Seconds(1)}));
  EXPECT_TRUE(is_refused({.target = "a:1", .tries_max = 0}));
  EXPECT_TRUE(is_refused({.target = "a:1", .tries_max = 101}));
  EXPECT_TRUE(
      is_refused({.target = "a:1", .backoff_first = absl::ZeroDuration()}));
  EXPECT_TRUE(
      is_refused({.target = "a:1", .backoff_max = absl::InfiniteDuration()}));
  EXPECT_FALSE(is_refused({.target = "a:1"}));
}

TEST_F(CallsTest, TimeoutsAndWaitsOutOfBoundsAreNotSent) {
  for (const absl::Duration timeout :
       {absl::ZeroDuration(), -absl::Seconds(1), absl::Seconds(61),
        absl::InfiniteDuration()}) {
    EXPECT_EQ(
        library().Begin(BeginOf(Key()), {.timeout = timeout}).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
  for (const absl::Duration wait :
       {-absl::Seconds(1), absl::Seconds(31), absl::InfiniteDuration()}) {
    dd::BeginRequest begin = BeginOf(Key());
    begin.wait = wait;
    EXPECT_EQ(library().Begin(begin).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(relay().seen(), SizeIs(0));
}

// The first answer is lost, and the token revoked before the call is repeated.
TEST_F(CallsTest, RefusedCredentialsDoNotTellOfEarlierSendings) {
  for (const auto& [code, reason] :
       {std::pair{grpc::StatusCode::UNAUTHENTICATED, "CREDENTIALS_REFUSED"},
        std::pair{grpc::StatusCode::PERMISSION_DENIED, "METHOD_FORBIDDEN"}}) {
    const dd::BeginRequest begin = BeginOf(Key(reason));
    const auto started = Expect<dd::Started>(library().Begin(begin));
    relay().Set([code = code, reason = reason](const std::string&, int n) {
      RelayServer::Fate fate;
      if (n == 1) {
        fate.instead_of_answer = {grpc::StatusCode::UNAVAILABLE, "cut"};
      } else if (n == 2) {
        fate.instead_of_call = DedupeError(code, reason);
      }
      return fate;
    });
    Expect<dd::Unknown>(library().Complete(CompleteOf(begin, started)));
    relay().Set({});
    const auto record = library().Lookup("acme", begin.key);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->state, dd::RecordState::kCompleted);
  }
}

}  // namespace
}  // namespace dedupe::testing
