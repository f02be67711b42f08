// The lease while the work runs: renewed, and never believed in for longer than
// it holds for certain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "absl/time/clock.h"
#include "dedupe/run_once.h"
#include "tests/end_to_end/client/client_deployment.h"

namespace dedupe::testing {
namespace {

namespace dd = ::dedupe::client;

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

dd::RunOnceRequest RequestOf(const std::string& key, absl::Duration lease) {
  dd::RunOnceRequest request;
  request.client_id = "acme";
  request.key = key;
  request.fingerprint = "f";
  request.lease = lease;
  return request;
}

// Returns when it is asked to stop, or after the limit; how long that took.
absl::Duration WaitForStop(const dd::Attempt& attempt, absl::Duration limit) {
  return TimeOf([&] {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, attempt.stop_token(),
                     absl::ToChronoMilliseconds(limit), [] { return false; });
  });
}

class RunOnceLeaseTest : public ClientTest {
 protected:
  // Extends are turned away from here on.
  void RefuseExtends() {
    relay().Set([](const std::string& method, int) {
      RelayServer::Fate fate;
      if (method == "Extend") {
        fate.instead_of_call = {grpc::StatusCode::UNAVAILABLE, "cut"};
      }
      return fate;
    });
  }
};

TEST_F(RunOnceLeaseTest, WorkMayTakeLongerThanTheLease) {
  std::atomic<bool> done = false;
  std::atomic<int> in_progress = 0;
  std::thread rival;
  Expect<dd::Ran>(
      dd::RunOnce(library(), RequestOf(Key(), absl::Milliseconds(400)),
                  [&](dd::Attempt& attempt) {
                    rival = std::thread([&] {
                      while (!done) {
                        Expect<dd::InProgress>(
                            library().Begin({.client_id = "acme",
                                             .key = Key(),

                                             .fingerprint = "f",
                                             .attempt_id = dd::NewAttemptId(),

                                             .ttl = {}}));
                        ++in_progress;
                        absl::SleepFor(absl::Milliseconds(20));
                      }
                    });
                    WaitForStop(attempt, absl::Seconds(2));
                    EXPECT_FALSE(attempt.stop_token().stop_requested());
                    EXPECT_GT(attempt.lease_left(), absl::ZeroDuration());
                    done = true;
                    rival.join();
                    return dd::Done{{.code = 200, .body = "b"}};
                  }));
  EXPECT_GT(in_progress, 10);
  EXPECT_THAT(relay().seen("Extend"), SizeIs(Ge(8u)));
}

TEST_F(RunOnceLeaseTest, RenewingStopsWithTheWork) {
  Expect<dd::Ran>(dd::RunOnce(library(),
                              RequestOf(Key(), absl::Milliseconds(150)),
                              [](dd::Attempt& attempt) {
                                WaitForStop(attempt, absl::Milliseconds(200));
                                return dd::Done{{.code = 200, .body = "b"}};
                              }));
  // For one that was on its way at the end.
  absl::SleepFor(absl::Milliseconds(200));
  const size_t before = relay().seen("Extend").size();
  EXPECT_GE(before, 2u);
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_EQ(relay().seen("Extend").size(), before);
}

// One unanswered renewal is not the end of it.
TEST_F(RunOnceLeaseTest, LostRenewalsAreTriedAgain) {
  relay().Set([](const std::string& method, int n) {
    RelayServer::Fate fate;
    if (method == "Extend" && n % 2 == 1) {
      fate.instead_of_answer = {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    return fate;
  });
  Expect<dd::Ran>(
      dd::RunOnce(library(), RequestOf(Key(), absl::Milliseconds(600)),
                  [](dd::Attempt& attempt) {
                    WaitForStop(attempt, absl::Milliseconds(2000));
                    EXPECT_FALSE(attempt.stop_token().stop_requested());
                    return dd::Done{{.code = 200, .body = "b"}};
                  }));
}

// If it were counted from the reply, a slow way back would make the work
// believe in a lease that has lapsed.
TEST_F(RunOnceLeaseTest, LeaseClockStartsAtTheSending) {
  relay().Set([](const std::string& method, int n) {
    RelayServer::Fate fate;
    if (method == "Begin" && n == 1) {
      fate.delay_of_answer = absl::Milliseconds(700);
    } else if (method == "Extend") {
      fate.instead_of_call = {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    return fate;
  });
  const auto sent = std::chrono::steady_clock::now();
  absl::Duration stopped_after;
  dd::RunOnce(library(), RequestOf(Key(), absl::Seconds(2)),
              [&](dd::Attempt& attempt) {
                EXPECT_LE(attempt.lease_left(), absl::Milliseconds(1300));
                WaitForStop(attempt, absl::Seconds(4));
                stopped_after =
                    absl::FromChrono(std::chrono::steady_clock::now() - sent);
                EXPECT_TRUE(attempt.stop_token().stop_requested());
                return dd::NothingHappened{};
              })
      .IgnoreError();
  EXPECT_THAT(stopped_after,
              AllOf(Ge(absl::Seconds(1.5)), Le(absl::Seconds(2))));
}

// The server stops in the middle: the work is told before the lease can have
// lapsed, and Complete says the truth afterwards.
TEST_F(RunOnceLeaseTest, FrozenServerStopsTheWorkInTime) {
  for (const bool is_taken_over : {false, true}) {
    Deployment own;
    const auto client = MakeLibraryClient(own.server().address());
    // Ready to go, so that the time counts from the sending of Begin.
    ASSERT_TRUE(client->Lookup("acme", "k").ok());
    const auto sent = std::chrono::steady_clock::now();
    std::thread freezer([&] {
      absl::SleepFor(absl::Milliseconds(300));
      own.server().process().Signal(SIGSTOP);
      absl::SleepFor(absl::Seconds(3));
      own.server().process().Signal(SIGCONT);
    });
    const auto outcome = dd::RunOnce(
        *client, RequestOf("k", absl::Seconds(2)), [&](dd::Attempt& attempt) {
          WaitForStop(attempt, absl::Seconds(5));
          EXPECT_THAT(absl::FromChrono(std::chrono::steady_clock::now() - sent),
                      AllOf(Ge(absl::Seconds(1.5)), Le(absl::Seconds(2))));
          freezer.join();
          if (is_taken_over) {
            EXPECT_THAT(own.client().Begin([] {
              v1::BeginRequest begin;
              begin.set_client_id("acme");
              begin.set_key("k");
              begin.set_fingerprint("f");
              begin.set_attempt_id("rival");
              return begin;
            }()),
                        IsStarted());
          }
          return dd::Done{{.code = 200, .body = "b"}};
        });
    if (is_taken_over) {
      EXPECT_EQ(Expect<dd::NotRecorded>(outcome).status.code(),
                absl::StatusCode::kFailedPrecondition);
    } else {
      Expect<dd::Ran>(outcome);
    }
  }
}

TEST_F(RunOnceLeaseTest, LostLeaseStopsTheWorkAtTheNextRenewal) {
  const auto outcome = dd::RunOnce(
      library(), RequestOf(Key(), absl::Seconds(3)), [&](dd::Attempt& attempt) {
        // Its own record is deleted: the next renewal is told so.
        Sql(Shared().url(),
            absl::StrCat("DELETE FROM dedupe.record WHERE key = '", Key(),
                         "'"));
        EXPECT_LE(WaitForStop(attempt, absl::Seconds(5)), absl::Seconds(1.8));
        EXPECT_TRUE(attempt.stop_token().stop_requested());
        return dd::Done{{.code = 200, .body = "b"}};
      });
  EXPECT_EQ(Expect<dd::NotRecorded>(outcome).status.code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(RunOnceLeaseTest, WorkLimitStopsTheWorkAndItsRenewal) {
  dd::RunOnceRequest request = RequestOf(Key(), absl::Milliseconds(300));
  request.work_limit = absl::Milliseconds(800);
  Expect<dd::Unknown>(dd::RunOnce(
      library(), request, [&](dd::Attempt& attempt) -> dd::WorkResult {
        EXPECT_THAT(WaitForStop(attempt, absl::Seconds(5)),
                    AllOf(Ge(absl::Milliseconds(700)), Le(absl::Seconds(1.2))));
        absl::SleepFor(absl::Milliseconds(200));
        const size_t before = relay().seen("Extend").size();
        absl::SleepFor(absl::Milliseconds(500));
        EXPECT_EQ(relay().seen("Extend").size(), before);
        EXPECT_EQ(attempt.lease_left(), absl::ZeroDuration());
        return dd::Unknown{absl::DeadlineExceededError("too long")};
      }));
}

// A process that is told to end and has done nothing hands the key over at
// once, whatever its lease.
TEST_F(RunOnceLeaseTest, StopHandsTheKeyOver) {
  std::stop_source stop;
  dd::RunOnceRequest request = RequestOf(Key(), absl::Seconds(60));
  request.stop = stop.get_token();
  std::thread stopper;
  int64_t fence = 0;
  Expect<dd::Freed>(dd::RunOnce(library(), request, [&](dd::Attempt& attempt) {
    fence = attempt.info().fence;
    stopper = std::thread([&] { stop.request_stop(); });
    EXPECT_LE(WaitForStop(attempt, absl::Seconds(10)), absl::Seconds(5));
    return dd::NothingHappened{};
  }));
  stopper.join();
  Expect<dd::Ran>(dd::RunOnce(library(), RequestOf(Key(), absl::Seconds(60)),
                              [&](dd::Attempt& attempt) {
                                EXPECT_GT(attempt.info().fence, fence);
                                return dd::Done{{.code = 200, .body = "b"}};
                              }));
}

// A stop in the middle of Begin leaves no lease behind: under HOLD the key
// would be in doubt, though nothing ran.
TEST_F(RunOnceLeaseTest, StopDuringBeginGivesTheKeyBack) {
  std::stop_source stop;
  dd::RunOnceRequest request = RequestOf(Key(), absl::Seconds(60));
  request.on_lease_expiry = dd::OnLeaseExpiry::kHold;
  request.stop = stop.get_token();
  relay().Set([&](const std::string& method, int n) {
    RelayServer::Fate fate;
    if (method == "Begin" && n == 1) {
      fate.change_answer = [&](auto&) { stop.request_stop(); };
      fate.delay_of_answer = absl::Seconds(5);
    }
    return fate;
  });
  const auto outcome =
      dd::RunOnce(library(), request, [](dd::Attempt&) -> dd::WorkResult {
        ADD_FAILURE() << "it was told to stop";
        return dd::NothingHappened{};
      });
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
  const auto record = library().Lookup("acme", Key());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->state, dd::RecordState::kReleased);
}

TEST_F(RunOnceLeaseTest, StopBeforeBeginSendsNothing) {
  std::stop_source stop;
  stop.request_stop();
  dd::RunOnceRequest request = RequestOf(Key(), absl::Seconds(60));
  request.stop = stop.get_token();
  const auto outcome =
      dd::RunOnce(library(), request, [](dd::Attempt&) -> dd::WorkResult {
        ADD_FAILURE() << "it was told to stop";
        return dd::NothingHappened{};
      });
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(relay().seen(), IsEmpty());
}

TEST_F(RunOnceLeaseTest, CheckpointIsSavedAfterTheStopToo) {
  std::stop_source stop;
  dd::RunOnceRequest request = RequestOf(Key(), absl::Seconds(60));
  request.stop = stop.get_token();
  Expect<dd::Unknown>(dd::RunOnce(
      library(), request, [&](dd::Attempt& attempt) -> dd::WorkResult {
        stop.request_stop();
        EXPECT_TRUE(attempt.SaveCheckpoint("so far").ok());
        return dd::Unknown{absl::CancelledError("told to end")};
      }));
}

// What was waited for another attempt counts as if the lease had been held all
// along, so it is renewed before the work begins.
TEST_F(RunOnceLeaseTest, LeaseIsWholeAfterALongWait) {
  std::atomic<bool> holds = false;
  std::thread holder([&] {
    Expect<dd::Freed>(dd::RunOnce(
        library(), RequestOf(Key(), absl::Seconds(30)), [&](dd::Attempt&) {
          holds = true;
          absl::SleepFor(absl::Seconds(1.5));
          return dd::NothingHappened{};
        }));
  });
  while (!holds) absl::SleepFor(absl::Milliseconds(1));
  dd::RunOnceRequest request = RequestOf(Key(), absl::Seconds(1));
  request.wait = absl::Seconds(10);
  Expect<dd::Ran>(dd::RunOnce(library(), request, [&](dd::Attempt& attempt) {
    EXPECT_GT(attempt.lease_left(), absl::Milliseconds(800));
    EXPECT_EQ(attempt.info().attempt_number, 2);
    return dd::Done{{.code = 200, .body = "b"}};
  }));
  holder.join();
}

// A lease that has lapsed by the time its grant is heard of is no lease.
TEST_F(RunOnceLeaseTest, WayLongerThanTheLeaseIsNotRun) {
  relay().Set([](const std::string& method, int) {
    RelayServer::Fate fate;
    if (method == "Begin") fate.delay_of_answer = absl::Milliseconds(400);
    return fate;
  });
  const auto outcome =
      dd::RunOnce(library(), RequestOf(Key(), absl::Milliseconds(200)),
                  [](dd::Attempt&) -> dd::WorkResult {
                    ADD_FAILURE() << "it held no lease";
                    return dd::NothingHappened{};
                  });
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace dedupe::testing
