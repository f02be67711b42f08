// RunOnce against a real server: what the work says is what is settled.
#include "dedupe/run_once.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "tests/end_to_end/client/client_deployment.h"

namespace dedupe::testing {
namespace {

namespace dd = ::dedupe::client;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RunOnceTest : public ClientTest {
 protected:
  static dd::RunOnceRequest RequestOf(const std::string& key) {
    dd::RunOnceRequest request;
    request.client_id = "acme";
    request.key = key;
    request.operation = "POST /v1/charges";
    request.fingerprint = std::string(32, 'f');
    return request;
  }
  static dd::RunOnceRequest Short(const std::string& key) {
    dd::RunOnceRequest request = RequestOf(key);
    request.lease = absl::Milliseconds(300);
    return request;
  }

  // Work that says this, and counts.
  dd::Work Saying(const dd::WorkResult& result) {
    return [this, result](dd::Attempt&) {
      ++runs_;
      return result;
    };
  }
  dd::Work SayingDone(const std::string& body = "done") {
    return Saying(dd::Done{ResponseOf(body)});
  }
  static dd::Response ResponseOf(const std::string& body) {
    return {.code = 201, .headers = {{"a", "b"}}, .body = body};
  }

  absl::StatusOr<dd::RunOnceOutcome> RunOnce(const dd::RunOnceRequest& request,
                                             const dd::Work& work) {
    return dd::RunOnce(library(), request, work);
  }

  dd::RecordState StateOf(const std::string& key) {
    const auto record = library().Lookup("acme", key);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? record->state : dd::RecordState::kAbsent;
  }

  // An attempt at the key whose process died in the middle of its work.
  void LeaveACrashedAttempt(const std::string& key) {
    dd::BeginRequest begin = BeginOf(key);
    begin.lease = absl::Milliseconds(100);
    Expect<dd::Started>(library().Begin(begin));
    absl::SleepFor(absl::Milliseconds(150));
  }

  std::atomic<int> runs_ = 0;
};

TEST_F(RunOnceTest, DoneIsStoredAndReplayed) {
  const auto ran = Expect<dd::Ran>(RunOnce(RequestOf(Key()), SayingDone()));
  EXPECT_EQ(ran.response, ResponseOf("done"));
  EXPECT_FALSE(ran.reconciled);
  EXPECT_EQ(ran.expires_at - ran.completed_at, absl::Hours(24));
  const auto replay =
      Expect<dd::Replay>(RunOnce(RequestOf(Key()), SayingDone("again")));
  EXPECT_EQ(replay.response, ResponseOf("done"));
  EXPECT_EQ(replay.completed_at, ran.completed_at);
  EXPECT_EQ(runs_, 1);
}

TEST_F(RunOnceTest, WorkSeesItsAttempt) {
  dd::RunOnceRequest request = RequestOf(Key());
  Expect<dd::Ran>(RunOnce(request, [&](dd::Attempt& attempt) {
    EXPECT_EQ(attempt.info().client_id, "acme");
    EXPECT_EQ(attempt.info().key, Key());
    EXPECT_THAT(attempt.info().attempt_id, SizeIs(36));
    EXPECT_GT(attempt.info().fence, 0);
    EXPECT_EQ(attempt.info().attempt_number, 1);
    EXPECT_FALSE(attempt.info().taken_over);
    EXPECT_FALSE(attempt.stop_token().stop_requested());
    EXPECT_GT(attempt.lease_left(), absl::Seconds(25));
    return dd::Done{ResponseOf("done")};
  }));
}

// A key of the caller's is never replaced, and each call is an attempt of its
// own.
TEST_F(RunOnceTest, KeyIsTheCallersAndAttemptIdsAreFresh) {
  Expect<dd::Freed>(
      RunOnce(RequestOf("order-42"), Saying(dd::NothingHappened{})));
  Expect<dd::Ran>(RunOnce(RequestOf("order-42"), SayingDone()));
  std::set<std::string> attempt_ids;
  for (const RelayServer::Seen& seen : relay().seen("Begin")) {
    attempt_ids.insert(seen.attempt_id);
    v1::BeginRequest request;
    ASSERT_TRUE(request.ParseFromString(seen.request));
    EXPECT_EQ(request.key(), "order-42");
  }
  EXPECT_THAT(attempt_ids, SizeIs(2));
}

TEST_F(RunOnceTest, CompleteIsSentOnlyAfterTheWork) {
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), [&](dd::Attempt&) {
    EXPECT_THAT(relay().seen("Complete"), IsEmpty());
    EXPECT_EQ(StateOf(Key()), dd::RecordState::kInProgress);
    return dd::Done{ResponseOf("done")};
  }));
  EXPECT_THAT(relay().seen("Complete"), SizeIs(1));
}

TEST_F(RunOnceTest, NothingHappenedFreesTheKeyAtOnce) {
  const auto freed = Expect<dd::Freed>(RunOnce(
      RequestOf(Key()), Saying(dd::NothingHappened{ResponseOf("later")})));
  EXPECT_EQ(freed.answer, ResponseOf("later"));
  EXPECT_EQ(StateOf(Key()), dd::RecordState::kReleased);
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), [](dd::Attempt& attempt) {
    EXPECT_EQ(attempt.info().attempt_number, 2);
    EXPECT_FALSE(attempt.info().taken_over);
    return dd::Done{ResponseOf("done")};
  }));
}

TEST_F(RunOnceTest, UnknownNeitherCompletesNorReleases) {
  const auto unknown = Expect<dd::Unknown>(
      RunOnce(Short(Key()), Saying(dd::Unknown{absl::AbortedError("bank")})));
  EXPECT_EQ(unknown.status, absl::AbortedError("bank"));
  EXPECT_THAT(relay().seen("Complete"), IsEmpty());
  EXPECT_THAT(relay().seen("Release"), IsEmpty());
  Expect<dd::InProgress>(RunOnce(RequestOf(Key()), SayingDone()));
}

// To release after an exception would run the work again beside what the first
// run may have done.
TEST_F(RunOnceTest, ExceptionIsUnknown) {
  const auto unknown = Expect<dd::Unknown>(
      RunOnce(Short(Key()), [](dd::Attempt&) -> dd::WorkResult {
        throw std::runtime_error("the bank hung up");
      }));
  EXPECT_THAT(std::string(unknown.status.message()),
              HasSubstr("the bank hung up"));
  EXPECT_THAT(relay().seen("Release"), IsEmpty());
  EXPECT_EQ(StateOf(Key()), dd::RecordState::kInProgress);
  absl::SleepFor(absl::Milliseconds(350));
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), [](dd::Attempt& attempt) {
    EXPECT_TRUE(attempt.info().taken_over);
    return dd::Done{ResponseOf("done")};
  }));
}

TEST_F(RunOnceTest, WhatIsNoExceptionClassIsUnknownToo) {
  Expect<dd::Unknown>(
      RunOnce(Short(Key()), [](dd::Attempt&) -> dd::WorkResult { throw 7; }));
}

TEST_F(RunOnceTest, UnknownIsNeverOk) {
  EXPECT_FALSE(Expect<dd::Unknown>(RunOnce(Short(Key()), Saying(dd::Unknown{})))
                   .status.ok());
}

TEST_F(RunOnceTest, RefusedRequestIsNotRun) {
  EXPECT_EQ(dd::ReasonOf(RunOnce(RequestOf(""), SayingDone()).status()),
            "KEY_EMPTY");
  dd::RunOnceRequest request = RequestOf(Key());
  request.wait = absl::Minutes(16);
  EXPECT_EQ(RunOnce(request, SayingDone()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOnce(RequestOf(Key()), nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  request = RequestOf(Key());
  request.work_limit = absl::ZeroDuration();
  EXPECT_EQ(RunOnce(request, SayingDone()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(runs_, 0);
}

TEST_F(RunOnceTest, MismatchIsNotRunAndAskedOnce) {
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), SayingDone()));
  dd::RunOnceRequest other = RequestOf(Key());
  other.fingerprint = "other";
  const size_t before = relay().seen().size();
  Expect<dd::Mismatch>(RunOnce(other, SayingDone()));
  EXPECT_EQ(relay().seen().size(), before + 1);
  EXPECT_EQ(runs_, 1);
}

TEST_F(RunOnceTest, BeginThatIsNeverAnsweredIsNotRun) {
  relay().Set([](const std::string&, int) {
    return RelayServer::Fate{.instead_of_answer = grpc::Status(
                                 grpc::StatusCode::UNAVAILABLE, "cut")};
  });
  dd::RunOnceRequest request = RequestOf(Key());
  request.timeout = absl::Milliseconds(500);
  Expect<dd::Unknown>(RunOnce(request, SayingDone()));
  EXPECT_EQ(runs_, 0);
}

TEST_F(RunOnceTest, OutcomeOfAnUnknownKindIsNotRun) {
  relay().Set([](const std::string&, int) {
    return RelayServer::Fate{.change_answer = [](auto& m) { m.Clear(); }};
  });
  Expect<dd::Unknown>(RunOnce(RequestOf(Key()), SayingDone()));
  EXPECT_EQ(runs_, 0);
  EXPECT_THAT(relay().seen(), SizeIs(1));
}

TEST_F(RunOnceTest, LostAnswersChangeNothing) {
  relay().Set([](const std::string&, int n) {
    RelayServer::Fate fate;
    if (n == 1) fate.instead_of_answer = {grpc::StatusCode::UNAVAILABLE, "cut"};
    return fate;
  });
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), SayingDone()));
  EXPECT_EQ(runs_, 1);
  EXPECT_THAT(relay().seen("Begin"), SizeIs(2));
  EXPECT_THAT(relay().seen("Complete"), SizeIs(2));
}

TEST_F(RunOnceTest, DoneThatIsNeverAcknowledgedIsNotRecorded) {
  relay().Set([](const std::string& method, int) {
    RelayServer::Fate fate;
    if (method == "Complete") {
      fate.instead_of_call = {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    return fate;
  });
  dd::RunOnceRequest request = Short(Key());
  request.timeout = absl::Milliseconds(500);
  const auto not_recorded =
      Expect<dd::NotRecorded>(RunOnce(request, SayingDone()));
  EXPECT_EQ(not_recorded.response, ResponseOf("done"));
  EXPECT_EQ(not_recorded.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(relay().seen("Release"), IsEmpty());
}

// The work was done. A key that stayed without its response would be begun
// again when the lease has lapsed, and once more, and once more.
TEST_F(RunOnceTest, ResponseThatIsRefusedIsStoredWithoutWhatBreaksTheBound) {
  for (const std::string value : {"two\nlines", "a\ttab", "\xff"}) {
    const std::string key = Key(std::to_string(value.size()));
    dd::Response bad = ResponseOf("done");
    bad.headers = {{"name", value}};
    EXPECT_EQ(
        Expect<dd::Ran>(RunOnce(Short(key), Saying(dd::Done{bad}))).response,
        bad);
    const auto replay = Expect<dd::Replay>(RunOnce(Short(key), SayingDone()));
    EXPECT_EQ(replay.response,
              (dd::Response{.code = 201, .body_omitted = true}));
  }
  EXPECT_EQ(runs_, 3);
  EXPECT_THAT(relay().seen("Release"), IsEmpty());
}

TEST_F(RunOnceTest, BodyOverTheLimitIsOmitted) {
  dd::Response large = ResponseOf(std::string(dd::kBodyBytesMax + 1, 'x'));
  const auto ran =
      Expect<dd::Ran>(RunOnce(RequestOf(Key()), Saying(dd::Done{large})));
  EXPECT_EQ(ran.response, large);
  const auto replay =
      Expect<dd::Replay>(RunOnce(RequestOf(Key()), SayingDone()));
  EXPECT_TRUE(replay.response.body_omitted);
  EXPECT_THAT(replay.response.body, IsEmpty());
  EXPECT_EQ(replay.response.headers, large.headers);
}

TEST_F(RunOnceTest, BodyAtTheLimitIsStored) {
  const dd::Response large = ResponseOf(std::string(dd::kBodyBytesMax, '\xff'));
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), Saying(dd::Done{large})));
  EXPECT_EQ(
      Expect<dd::Replay>(RunOnce(RequestOf(Key()), SayingDone())).response,
      large);
}

TEST_F(RunOnceTest, TakeoverCompletesWhatIsFound) {
  LeaveACrashedAttempt(Key());
  dd::RunOnceRequest request = RequestOf(Key());
  const absl::Time start = absl::Now();
  request.reconcile = [&](dd::Attempt& attempt) {
    EXPECT_EQ(attempt.info().key, Key());
    EXPECT_TRUE(attempt.info().taken_over);
    EXPECT_GT(attempt.info().fence, 0);
    EXPECT_TRUE(attempt.info().first_seen_at.has_value());
    EXPECT_LT(*attempt.info().first_seen_at, start);
    return dd::Done{ResponseOf("found")};
  };
  const auto ran = Expect<dd::Ran>(RunOnce(request, SayingDone()));
  EXPECT_TRUE(ran.reconciled);
  EXPECT_EQ(ran.response, ResponseOf("found"));
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(Expect<dd::Replay>(RunOnce(request, SayingDone())).response,
            ResponseOf("found"));
}

TEST_F(RunOnceTest, TakeoverRunsWhenNothingIsFound) {
  LeaveACrashedAttempt(Key());
  dd::RunOnceRequest request = RequestOf(Key());
  request.reconcile = [](dd::Attempt&) { return dd::NothingHappened{}; };
  EXPECT_FALSE(Expect<dd::Ran>(RunOnce(request, SayingDone())).reconciled);
  EXPECT_EQ(runs_, 1);
}

TEST_F(RunOnceTest, TakeoverThatCannotTellIsNotRunAndIsTriedAgain) {
  LeaveACrashedAttempt(Key());
  dd::RunOnceRequest request = RequestOf(Key());
  request.reconcile = [](dd::Attempt&) {
    return dd::Unknown{absl::UnavailableError("ledger")};
  };
  Expect<dd::Unknown>(RunOnce(request, SayingDone()));
  request.reconcile = [](dd::Attempt&) -> dd::Reconciled {
    throw std::runtime_error("ledger");
  };
  Expect<dd::Unknown>(RunOnce(request, SayingDone()));
  EXPECT_EQ(runs_, 0);
  // At once, and still told to look.
  request.reconcile = [](dd::Attempt&) {
    return dd::Done{ResponseOf("found")};
  };
  EXPECT_TRUE(Expect<dd::Ran>(RunOnce(request, SayingDone())).reconciled);
}

// Whoever looks by itself, in the work, needs to know as well what belongs to
// an expired record.
TEST_F(RunOnceTest, WorkIsToldWhenTheRecordBeganWithoutAHookToo) {
  LeaveACrashedAttempt(Key());
  const absl::Time now = absl::Now();
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), [&](dd::Attempt& attempt) {
    EXPECT_TRUE(attempt.info().taken_over);
    EXPECT_TRUE(attempt.info().first_seen_at.has_value());
    EXPECT_LT(*attempt.info().first_seen_at, now);
    return dd::Done{ResponseOf("done")};
  }));
}

// It stalled for so long that its record has expired and another attempt has
// begun the key anew: what that one's record says is not about this one.
TEST_F(RunOnceTest, YoungerRecordIsNotTakenForItsOwn) {
  dd::BeginRequest begin = BeginOf(Key());
  begin.lease = absl::Milliseconds(100);
  begin.ttl = absl::Milliseconds(300);
  Expect<dd::Started>(library().Begin(begin));
  absl::SleepFor(absl::Milliseconds(150));
  const auto direct = MakeLibraryClient(Shared().server().address());
  relay().Set([&](const std::string& method, int) {
    RelayServer::Fate fate;
    if (method == "Lookup") fate.delay_of_call = absl::Milliseconds(800);
    if (method == "Extend") {
      fate.instead_of_call = {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    return fate;
  });
  std::thread rival([&] {
    while (relay().seen("Lookup").empty())
      absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(500));
    Expect<dd::Started>(direct->Begin(BeginOf(Key())));
  });
  dd::RunOnceRequest request = RequestOf(Key());
  request.lease = absl::Milliseconds(100);
  request.ttl = absl::Milliseconds(300);
  request.reconcile = [](dd::Attempt&) -> dd::Reconciled {
    ADD_FAILURE() << "there is nothing to look with";
    return dd::NothingHappened{};
  };
  Expect<dd::Unknown>(RunOnce(request, SayingDone()));
  rival.join();
  EXPECT_EQ(runs_, 0);
}

TEST_F(RunOnceTest, LeaseThatLapsedWhileLookingIsNotRun) {
  LeaveACrashedAttempt(Key());
  relay().Set([&](const std::string& method, int) {
    RelayServer::Fate fate;
    if (method == "Extend") {
      fate.instead_of_call = {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    return fate;
  });
  dd::RunOnceRequest request = Short(Key());
  request.reconcile = [](dd::Attempt&) {
    absl::SleepFor(absl::Milliseconds(400));
    return dd::NothingHappened{};
  };
  Expect<dd::Unknown>(RunOnce(request, SayingDone()));
  EXPECT_EQ(runs_, 0);
}

TEST_F(RunOnceTest, FirstAttemptIsNotAskedToReconcile) {
  dd::RunOnceRequest request = RequestOf(Key());
  request.reconcile = [](dd::Attempt&) -> dd::Reconciled {
    ADD_FAILURE() << "nobody was before it";
    return dd::NothingHappened{};
  };
  Expect<dd::Ran>(RunOnce(request, SayingDone()));
  EXPECT_THAT(relay().seen("Lookup"), IsEmpty());
}

TEST_F(RunOnceTest, CheckpointIsTheNextAttempts) {
  Expect<dd::Unknown>(
      RunOnce(Short(Key()), [](dd::Attempt& attempt) -> dd::WorkResult {
        EXPECT_TRUE(attempt.SaveCheckpoint("step 1").ok());
        EXPECT_TRUE(attempt.SaveCheckpoint("step 2").ok());
        EXPECT_EQ(attempt.SaveCheckpoint(std::string(4097, 'x')).code(),
                  absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(attempt.SaveCheckpoint("").code(),
                  absl::StatusCode::kInvalidArgument);
        return dd::Unknown{absl::AbortedError("half done")};
      }));
  absl::SleepFor(absl::Milliseconds(350));
  Expect<dd::Ran>(RunOnce(RequestOf(Key()), [](dd::Attempt& attempt) {
    EXPECT_EQ(attempt.info().checkpoint, "step 2");
    return dd::Done{ResponseOf("done")};
  }));
}

TEST_F(RunOnceTest, OneOfManyRunsAndTheOthersAreHandedItsResponse) {
  constexpr int kCallers = 48;
  dd::RunOnceRequest request = RequestOf(Key());
  request.wait = absl::Seconds(20);
  std::atomic<int> ran = 0;
  std::atomic<int> replayed = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      const auto outcome = RunOnce(request, [&](dd::Attempt&) {
        ++runs_;
        absl::SleepFor(absl::Milliseconds(200));
        return dd::Done{ResponseOf("done")};
      });
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      if (std::holds_alternative<dd::Ran>(*outcome)) ++ran;
      if (std::holds_alternative<dd::Replay>(*outcome)) ++replayed;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(replayed, kCallers - 1);
}

// Whoever waits looks at what came of it; it does not run because the holder
// has gone.
TEST_F(RunOnceTest, WaiterIsHandedTheResultOrTheKey) {
  for (const bool is_released : {false, true}) {
    const std::string key = Key(is_released ? "released" : "completed");
    runs_ = 0;
    std::thread first([&] {
      RunOnce(RequestOf(key), [&](dd::Attempt&) -> dd::WorkResult {
        ++runs_;
        absl::SleepFor(absl::Milliseconds(500));
        if (is_released) return dd::NothingHappened{};
        return dd::Done{ResponseOf("the first's")};
      }).IgnoreError();
    });
    while (runs_ == 0) absl::SleepFor(absl::Milliseconds(1));
    dd::RunOnceRequest request = RequestOf(key);
    request.wait = absl::Seconds(10);
    const auto outcome = RunOnce(request, SayingDone("the second's"));
    first.join();
    if (is_released) {
      Expect<dd::Ran>(outcome);
      EXPECT_EQ(runs_, 2);
    } else {
      EXPECT_EQ(Expect<dd::Replay>(outcome).response,
                ResponseOf("the first's"));
      EXPECT_EQ(runs_, 1);
    }
  }
}

// Many callers who meet an attempt at work do not come back in step.
TEST_F(RunOnceTest, SecondTriesAreSpread) {
  constexpr int kCallers = 200;
  const absl::Duration hint = absl::Seconds(1);
  relay().Set([&](const std::string&, int n) {
    RelayServer::Fate fate;
    if (n > kCallers) return fate;
    fate.change_answer = [&](google::protobuf::Message& message) {
      // A server that does not let Begins wait.
      auto& answer = dynamic_cast<v1::BeginResponse&>(message);
      answer.Clear();
      *answer.mutable_in_progress()->mutable_retry_after() = ToProto(hint);
    };
    return fate;
  });
  dd::RunOnceRequest request = RequestOf(Key());
  request.wait = absl::Seconds(4);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      dd::RunOnceRequest own = request;
      own.key = absl::StrCat(Key(), i);
      RunOnce(own, SayingDone()).IgnoreError();
    });
  }
  for (std::thread& caller : callers) caller.join();

  const auto seen = relay().seen("Begin");
  ASSERT_THAT(seen, SizeIs(2 * kCallers));
  std::map<std::string, std::chrono::steady_clock::time_point> first;
  std::map<int64_t, int> buckets;
  for (const RelayServer::Seen& call : seen) {
    const auto [place, is_first] =
        first.emplace(call.attempt_id, call.arrived_at);
    if (is_first) continue;
    const absl::Duration after =
        absl::FromChrono(call.arrived_at - place->second);
    EXPECT_GE(after, hint);
    ++buckets[after / absl::Milliseconds(50)];
  }
  for (const auto& [bucket, count] : buckets) {
    EXPECT_LE(count, kCallers / 5) << "at " << bucket * 50 << " ms";
  }
}

}  // namespace
}  // namespace dedupe::testing
