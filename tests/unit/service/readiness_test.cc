// Whether calls can be answered: what counts as yes, as no, and as no news.
#include "server/service/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/reason.h"
#include "tests/support/fake_store.h"

namespace dedupe {
namespace {

using ::dedupe::testing::FakeStore;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kSchema = 11;

ProbeAnswer Found(int schema_version) {
  ProbeAnswer answer;
  answer.schema_version = schema_version;
  return answer;
}

using Answers = std::function<absl::StatusOr<ProbeAnswer>()>;

Answers Finds(int schema_version) {
  return [schema_version] { return Found(schema_version); };
}
Answers Fails(Reason reason) {
  return [reason] { return Refusal(reason); };
}

absl::Status CheckFound(const ProbeAnswer& answer) {
  return answer.schema_version == kSchema
             ? absl::OkStatus()
             : absl::FailedPreconditionError("run `dedupe migrate`");
}

// A server's readiness, and what it has said of it so far.
class Watched {
 public:
  explicit Watched(const Answers& answers) {
    Answer(answers);
    readiness_.emplace(store_, CheckFound, [this](bool ready) {
      absl::MutexLock lock(&mutex_);
      changes_.push_back(ready);
    });
  }
  // Only then nobody reports any more.
  ~Watched() { readiness_.reset(); }

  void Answer(const Answers& answers) {
    store_.probes.AnswerBy(
        [answers](const ProbeCommand&) { return answers(); });
  }

  // So many more probes: the last but one has been judged then.
  void AwaitProbes(size_t more) {
    store_.probes.WaitForCount(store_.probes.count() + more);
  }

  std::vector<bool> AwaitChanges(size_t count) const {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return changes_.size() >= count;
    };
    testing::AwaitConditionOrDie(mutex_, absl::Condition(&enough));
    return changes_;
  }
  std::vector<bool> changes() const { return AwaitChanges(0); }

  FakeStore& store() { return store_; }
  Readiness& readiness() { return *readiness_; }

 private:
  FakeStore store_;
  mutable absl::Mutex mutex_;
  std::vector<bool> changes_ ABSL_GUARDED_BY(mutex_);
  std::optional<Readiness> readiness_;
};

TEST(ReadinessTest, ADatabaseThatTakesWritesIsReady) {
  Watched watched(Finds(kSchema));
  EXPECT_THAT(watched.AwaitChanges(1), ElementsAre(true));
}

TEST(ReadinessTest, ADatabaseThatIsAwayIsNotReady) {
  Watched watched(Fails(Reason::kStoreDown));
  EXPECT_THAT(watched.AwaitChanges(1), ElementsAre(false));
}

TEST(ReadinessTest, ASilentDatabaseIsNotReady) {
  Watched watched(Fails(Reason::kDeadlineExceeded));
  EXPECT_THAT(watched.AwaitChanges(1), ElementsAre(false));
}

TEST(ReadinessTest, AnotherSchemaIsNotReady) {
  Watched watched(Finds(kSchema - 1));
  EXPECT_THAT(watched.AwaitChanges(1), ElementsAre(false));
}

TEST(ReadinessTest, NoSchemaIsNotReady) {
  Watched watched(Fails(Reason::kStoreBroken));
  EXPECT_THAT(watched.AwaitChanges(1), ElementsAre(false));
}

TEST(ReadinessTest, OnlyChangesAreReported) {
  Watched watched(Finds(kSchema));
  watched.AwaitProbes(3);
  EXPECT_THAT(watched.changes(), ElementsAre(true));
  watched.Answer(Fails(Reason::kStoreDown));
  watched.AwaitChanges(2);
  watched.AwaitProbes(2);
  // Another failure is no change.
  watched.Answer(Finds(kSchema + 1));
  watched.AwaitProbes(2);
  EXPECT_THAT(watched.changes(), ElementsAre(true, false));
  watched.Answer(Finds(kSchema));
  EXPECT_THAT(watched.AwaitChanges(3), ElementsAre(true, false, true));
}

// Or a burst of calls would take every server off the balancer's list at once.
TEST(ReadinessTest, ABusyServerIsNotDown) {
  Watched watched(Finds(kSchema));
  watched.AwaitChanges(1);
  watched.Answer(Fails(Reason::kOverloaded));
  watched.AwaitProbes(4);
  EXPECT_THAT(watched.changes(), ElementsAre(true));
}

// Busy at first says nothing, and busy for five seconds is not well.
TEST(ReadinessTest, AServerThatStaysBusyIsDown) {
  Watched from_the_start(Fails(Reason::kOverloaded));
  Watched later(Finds(kSchema));
  later.AwaitChanges(1);
  const SteadyTime began = steady_clock::now();
  later.Answer(Fails(Reason::kOverloaded));
  from_the_start.AwaitProbes(2);
  EXPECT_THAT(from_the_start.changes(), IsEmpty());
  EXPECT_THAT(later.AwaitChanges(2), ElementsAre(true, false));
  EXPECT_THAT(from_the_start.AwaitChanges(1), ElementsAre(false));
  // The last good probe was up to half a second before.
  EXPECT_GE(steady_clock::now() - began, seconds(4));
}

// A busy moment tells nothing, in neither direction.
TEST(ReadinessTest, ABusyMomentDoesNotMakeADownServerReady) {
  Watched watched(Fails(Reason::kStoreDown));
  watched.AwaitChanges(1);
  watched.Answer(Fails(Reason::kOverloaded));
  watched.AwaitProbes(2);
  EXPECT_THAT(watched.changes(), ElementsAre(false));
}

TEST(ReadinessTest, AProbeHasOneSecond) {
  FakeStore store;
  Readiness readiness(store, CheckFound, [](bool) {});
  auto probe = store.probes.Take();
  EXPECT_LE(probe.scope.deadline(), probe.arrived_at + seconds(1));
  EXPECT_GT(probe.scope.deadline(), probe.arrived_at);
  probe.Finish(Found(kSchema));
  readiness.Stop();
}

TEST(ReadinessTest, StopEndsIt) {
  Watched watched(Finds(kSchema));
  watched.AwaitChanges(1);
  watched.readiness().Stop();
  const size_t probes = watched.store().probes.count();
  watched.readiness().Stop();
  EXPECT_FALSE(watched.store().probes.WaitForCall(absl::Milliseconds(600)));
  EXPECT_EQ(watched.store().probes.count(), probes);
}

}  // namespace
}  // namespace dedupe
