// The queue against a model that keeps plain lists and searches them: random
// steps, the same on both, and everything that can be seen is compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/job_queue.h"
#include "tests/unit/store/fake_job.h"

namespace dedupe {
namespace {

using ::dedupe::testing::At;
using ::dedupe::testing::MakeAnswered;
using ::dedupe::testing::MakeJob;

using Jobs = std::vector<JobPtr>;

constexpr JobQueue::Limits kLimits = {.jobs_max = 40,
                                      .bytes_max = 4000,
                                      .batch_jobs_max = 5,
                                      .batch_bytes_max = 500};
constexpr Verb kVerbsUsed[] = {Verb::kBegin, Verb::kComplete, Verb::kWatch};

// One id's jobs, in line, and since when it waits for its turn.
struct ModelTurn {
  RecordId id;
  std::list<JobPtr> line;
  SteadyTime since;
};

// One verb's jobs.
struct ModelLane {
  std::list<ModelTurn> turns;

  // A new one stands at the end.
  auto FindOrAdd(const JobPtr& job) {
    const auto turn =
        std::find_if(turns.begin(), turns.end(),
                     [&job](const ModelTurn& t) { return t.id == job->id; });
    if (turn != turns.end()) return turn;
    return turns.insert(turn, {job->id, {}, job->queued_at});
  }
};

class Model {
 public:
  size_t jobs() const { return All().size(); }
  size_t bytes() const {
    size_t bytes = 0;
    for (const JobPtr& job : All()) bytes += job->bytes;
    return bytes;
  }
  bool HasJobs() const { return All().size() > quarantine_.size(); }

  Jobs All() const {
    Jobs all = quarantine_;
    for (const auto& [verb, lane] : lanes_) {
      for (const ModelTurn& turn : lane.turns) {
        all.insert(all.end(), turn.line.begin(), turn.line.end());
      }
    }
    return all;
  }

  bool Push(const JobPtr& job, SteadyTime now) {
    if (jobs() + 1 > kLimits.jobs_max ||
        bytes() + job->bytes > kLimits.bytes_max) {
      return false;
    }
    job->queued_at = now;
    const bool suspect = std::any_of(
        quarantine_.begin(), quarantine_.end(), [&job](const JobPtr& q) {
          return q->verb == job->verb && q->id == job->id;
        });
    if (suspect) {
      quarantine_.push_back(job);
    } else {
      lanes_[job->verb].FindOrAdd(job)->line.push_back(job);
    }
    return true;
  }

  void Return(const Jobs& jobs) {
    for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
      if ((*job)->answered()) continue;
      if ((*job)->company_max > 0) {
        quarantine_.push_back(*job);
        continue;
      }
      ModelLane& lane = lanes_[(*job)->verb];
      const auto turn = lane.FindOrAdd(*job);
      turn->line.push_front(*job);
      turn->since = (*job)->queued_at;
      lane.turns.splice(lane.turns.begin(), lane.turns, turn);
    }
  }

  Jobs Take(SteadyTime now) {
    ModelLane* lane = OldestLane();
    if (lane == nullptr) return {};
    Jobs batch;
    size_t batch_bytes = 0;
    std::list<ModelTurn> served;
    while (!lane->turns.empty() && batch.size() < kLimits.batch_jobs_max) {
      ModelTurn& turn = lane->turns.front();
      const JobPtr job = turn.line.front();
      if (!job->answered()) {
        if (!batch.empty() &&
            batch_bytes + job->bytes > kLimits.batch_bytes_max) {
          break;
        }
        batch_bytes += job->bytes;
        batch.push_back(job);
      }
      turn.line.pop_front();
      turn.since = now;
      served.splice(served.end(), lane->turns, lane->turns.begin());
    }
    served.remove_if([](const ModelTurn& turn) { return turn.line.empty(); });
    lane->turns.splice(lane->turns.end(), served);
    std::sort(batch.begin(), batch.end(),
              [](const JobPtr& a, const JobPtr& b) { return a->id < b->id; });
    return batch;
  }

  // What the queue, of its own choice, has taken out of quarantine or dropped.
  void Unquarantine(const Jobs& jobs) {
    for (const JobPtr& job : jobs) std::erase(quarantine_, job);
  }

  void RemoveAnswered() {
    for (auto& [verb, lane] : lanes_) {
      for (ModelTurn& turn : lane.turns) {
        turn.line.remove_if([](const JobPtr& job) { return job->answered(); });
      }
      lane.turns.remove_if(
          [](const ModelTurn& turn) { return turn.line.empty(); });
    }
  }

  const Jobs& quarantine() const { return quarantine_; }

 private:
  ModelLane* OldestLane() {
    ModelLane* oldest = nullptr;
    for (auto& [verb, lane] : lanes_) {
      if (lane.turns.empty()) continue;
      if (oldest == nullptr ||
          lane.turns.front().since < oldest->turns.front().since) {
        oldest = &lane;
      }
    }
    return oldest;
  }

  std::map<Verb, ModelLane> lanes_;
  Jobs quarantine_;
};

class JobQueueModelTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void Step() {
    ++now_;
    switch (Random(12)) {
      case 0:
        return Take();
      case 1:
        return TakeQuarantined();
      case 2:
        return Return();
      case 3:
        return RemoveAnswered();
      case 4:
        return AnswerSomebody();
      default:
        return Push();
    }
  }

  void Compare() {
    ASSERT_EQ(queue_.jobs(), model_.jobs());
    ASSERT_EQ(queue_.bytes(), model_.bytes());
    ASSERT_EQ(queue_.HasJobs(), model_.HasJobs());
    ASSERT_EQ(queue_.HasQuarantined(At(now_)), !Due().empty());
    std::multiset<JobPtr> seen;
    queue_.ForEach([&seen](const JobPtr& job) { seen.insert(job); });
    const Jobs all = model_.All();
    ASSERT_EQ(seen, std::multiset<JobPtr>(all.begin(), all.end()));
  }

  void Drain() {
    while (model_.HasJobs()) Take();
    now_ += 1000;
    while (!model_.quarantine().empty()) TakeQuarantined();
    Compare();
    EXPECT_EQ(queue_.jobs(), 0u);
    EXPECT_EQ(queue_.bytes(), 0u);
  }

 private:
  size_t Random(size_t below) { return random_() % below; }

  void Push() {
    const Verb verb = kVerbsUsed[Random(3)];
    const JobPtr job = MakeJob(absl::StrCat("k", Random(8)), verb,
                               Random(10) == 0 ? 600 : 1 + Random(200));
    const bool expected = model_.Push(job, At(now_));
    ASSERT_EQ(queue_.Push(job, At(now_)), expected);
  }

  void Take() {
    const Jobs expected = model_.Take(At(now_));
    Jobs batch = queue_.Take(At(now_));
    ASSERT_EQ(batch, expected);
    ExpectProper(batch);
    taken_.push_back(std::move(batch));
  }

  // In quarantine the queue may choose, within bounds.
  void TakeQuarantined() {
    const Jobs due = Due();
    const bool anybody_open =
        std::any_of(due.begin(), due.end(),
                    [](const JobPtr& job) { return !job->answered(); });
    Jobs batch = queue_.TakeQuarantined(At(now_));
    ASSERT_EQ(batch.empty(), !anybody_open);
    ExpectProper(batch);
    for (const JobPtr& job : batch) {
      ASSERT_EQ(std::count(due.begin(), due.end(), job), 1);
      ASSERT_LE(batch.size(), job->company_max);
    }
    model_.Unquarantine(batch);
    model_.Unquarantine(DroppedOf(due));
    taken_.push_back(std::move(batch));
  }

  // On its way the queue may drop some that were answered.
  Jobs DroppedOf(const Jobs& due) const {
    std::set<JobPtr> left;
    queue_.ForEach([&left](const JobPtr& job) { left.insert(job); });
    Jobs dropped;
    for (const JobPtr& job : due) {
      if (job->answered() && !left.contains(job)) dropped.push_back(job);
    }
    return dropped;
  }

  void ExpectProper(const Jobs& batch) {
    size_t bytes = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      ASSERT_FALSE(batch[i]->answered());
      ASSERT_EQ(batch[i]->verb, batch[0]->verb);
      ASSERT_TRUE(i == 0 || batch[i - 1]->id < batch[i]->id);
      bytes += batch[i]->bytes;
    }
    ASSERT_TRUE(batch.size() <= 1 || bytes <= kLimits.batch_bytes_max ||
                batch[0]->company_max > 0);
  }

  // A batch that failed: some of it for good, some to be tried apart.
  void Return() {
    if (taken_.empty()) return;
    const auto chosen =
        taken_.begin() + static_cast<ptrdiff_t>(Random(taken_.size()));
    Jobs batch = std::move(*chosen);
    taken_.erase(chosen);
    for (const JobPtr& job : batch) {
      if (Random(4) == 0) MakeAnswered(job);
      if (Random(2) == 0) job->company_max = 1 + Random(3);
      if (Random(2) == 0) job->not_before = At(now_ + 1 + int(Random(30)));
    }
    model_.Return(batch);
    queue_.Return(std::move(batch), At(now_));
  }

  void RemoveAnswered() {
    queue_.RemoveAnswered();
    model_.RemoveAnswered();
  }

  void AnswerSomebody() {
    const Jobs all = model_.All();
    if (!all.empty()) MakeAnswered(all[Random(all.size())]);
  }

  Jobs Due() const {
    Jobs due;
    for (const JobPtr& job : model_.quarantine()) {
      if (job->not_before <= At(now_)) due.push_back(job);
    }
    return due;
  }

  int now_ = 0;
  std::mt19937 random_{GetParam()};
  JobQueue queue_{kLimits};
  Model model_;
  std::vector<Jobs> taken_;
};

TEST_P(JobQueueModelTest, AgreesAtEveryStep) {
  constexpr int kSteps = 3000;
  for (int step = 0; step < kSteps; ++step) {
    Step();
    Compare();
    ASSERT_FALSE(HasFatalFailure()) << "step " << step;
  }
  Drain();
}

INSTANTIATE_TEST_SUITE_P(Seeds, JobQueueModelTest,
                         ::testing::Range(uint32_t{1}, uint32_t{21}));

}  // namespace
}  // namespace dedupe
