// Which jobs go together, and in which order.
#include "server/store/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/store/fake_job.h"

namespace dedupe {
namespace {

using ::dedupe::testing::At;
using ::dedupe::testing::MakeAnswered;
using ::dedupe::testing::MakeJob;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using Jobs = std::vector<JobPtr>;

// So large that no test meets them unless it is about them.
constexpr JobQueue::Limits kAmple = {.jobs_max = 100'000,
                                     .bytes_max = 100'000'000,
                                     .batch_jobs_max = 100,
                                     .batch_bytes_max = 1'000'000};

JobQueue::Limits WithBatchJobs(size_t batch_jobs_max) {
  JobQueue::Limits limits = kAmple;
  limits.batch_jobs_max = batch_jobs_max;
  return limits;
}

std::vector<std::string> KeysOf(const Jobs& jobs) {
  std::vector<std::string> keys;
  for (const JobPtr& job : jobs) keys.push_back(job->id.key);
  return keys;
}

// A queue with a clock that ticks at every push.
class JobQueueTest : public ::testing::Test {
 protected:
  JobPtr Push(JobQueue& queue, JobPtr job) {
    EXPECT_TRUE(queue.Push(job, At(now_++)));
    return job;
  }
  JobPtr Push(JobQueue& queue, const std::string& key,
              Verb verb = Verb::kBegin) {
    return Push(queue, MakeJob(key, verb));
  }

  Jobs Take(JobQueue& queue) { return queue.Take(At(now_++)); }

  // As after a batch of `company_max` times as many has failed.
  JobPtr PushQuarantined(JobQueue& queue, const std::string& key,
                         size_t company_max, Verb verb = Verb::kBegin) {
    JobPtr job = MakeJob(key, verb);
    job->company_max = company_max;
    queue.Return({job}, At(now_++));
    return job;
  }

  int now_ = 1;
};

// A flood of calls must not keep the server from its own business.
TEST_F(JobQueueTest, ServersOwnJobsAlwaysHaveRoom) {
  JobQueue queue({.jobs_max = 1,
                  .bytes_max = 1'000'000,
                  .batch_jobs_max = 10,
                  .batch_bytes_max = 1'000'000});
  Push(queue, "a");
  EXPECT_FALSE(queue.Push(MakeJob("b"), At(now_++)));
  for (const Verb verb :
       {Verb::kAccess, Verb::kProbe, Verb::kReap, Verb::kUsage}) {
    Push(queue, "", verb);
  }
  EXPECT_FALSE(queue.Push(MakeJob("b"), At(now_++)));
}

// --- Take --------------------------------------------------------------------

TEST_F(JobQueueTest, GivesNothingWhenThereIsNothing) {
  JobQueue queue(kAmple);
  EXPECT_FALSE(queue.HasJobs());
  EXPECT_THAT(Take(queue), IsEmpty());
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), IsEmpty());
}

TEST_F(JobQueueTest, TakesEverythingThatFits) {
  JobQueue queue(kAmple);
  for (const char* key : {"c", "a", "b"}) Push(queue, key);
  EXPECT_TRUE(queue.HasJobs());
  EXPECT_THAT(Take(queue), SizeIs(3));
  EXPECT_FALSE(queue.HasJobs());
}

// All servers lock their rows in one order, or batches would deadlock.
TEST_F(JobQueueTest, BatchIsSortedById) {
  JobQueue queue(kAmple);
  for (const RecordId& id : {RecordId{"b", "1"}, RecordId{"a", "2"},
                             RecordId{"a", "10"}, RecordId{"B", "9"}}) {
    Push(queue,
         std::make_shared<testing::FakeJob>(Verb::kBegin, id, size_t{1}));
  }
  const Jobs batch = Take(queue);
  EXPECT_TRUE(std::is_sorted(
      batch.begin(), batch.end(),
      [](const JobPtr& a, const JobPtr& b) { return a->id < b->id; }));
  EXPECT_EQ(batch.front()->id.client_id, "B");
}

TEST_F(JobQueueTest, IdsOfABatchDiffer) {
  JobQueue queue(kAmple);
  const JobPtr first = Push(queue, "a");
  Push(queue, "b");
  const JobPtr second = Push(queue, "a");
  const Jobs batch = Take(queue);
  EXPECT_THAT(KeysOf(batch), ElementsAre("a", "b"));
  EXPECT_EQ(batch[0], first);
  EXPECT_THAT(Take(queue), ElementsAre(second));
}

TEST_F(JobQueueTest, JobsOfOneIdKeepTheirOrder) {
  JobQueue queue(kAmple);
  Jobs pushed;
  for (int i = 0; i < 20; ++i) pushed.push_back(Push(queue, "a"));
  for (const JobPtr& job : pushed) {
    EXPECT_THAT(Take(queue), ElementsAre(job));
  }
}

// The two parts of an id are compared apart from each other.
TEST_F(JobQueueTest, IdsThatJoinAlikeAreStrangers) {
  JobQueue queue(kAmple);
  for (const RecordId& id : {RecordId{"a:b", "c"}, RecordId{"a", "b:c"},
                             RecordId{"a/", "b"}, RecordId{"a", "/b"}}) {
    Push(queue,
         std::make_shared<testing::FakeJob>(Verb::kBegin, id, size_t{1}));
  }
  EXPECT_THAT(Take(queue), SizeIs(4));
}

TEST_F(JobQueueTest, BatchHasOneVerbTheOldestFirst) {
  JobQueue queue(kAmple);
  Push(queue, "a", Verb::kComplete);
  Push(queue, "b", Verb::kBegin);
  Push(queue, "c", Verb::kComplete);
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("a", "c"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("b"));
}

// One id's Begin and Complete are of different lanes.
TEST_F(JobQueueTest, VerbsOfOneIdDoNotMix) {
  JobQueue queue(kAmple);
  const JobPtr begin = Push(queue, "a", Verb::kBegin);
  const JobPtr complete = Push(queue, "a", Verb::kComplete);
  EXPECT_THAT(Take(queue), ElementsAre(begin));
  EXPECT_THAT(Take(queue), ElementsAre(complete));
}

TEST_F(JobQueueTest, BatchHasAtMostBatchJobsMaxTheOldestFirst) {
  JobQueue queue(WithBatchJobs(2));
  for (const char* key : {"c", "b", "a", "d", "e"}) Push(queue, key);
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("b", "c"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("a", "d"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("e"));
}

// --- Fairness ----------------------------------------------------------------

TEST_F(JobQueueTest, AThousandOnOneKeyDelayNobodyElse) {
  JobQueue queue(WithBatchJobs(4));
  for (int i = 0; i < 1000; ++i) Push(queue, "hot");
  const JobPtr other = Push(queue, "other");
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("hot", "other"));
  EXPECT_EQ(queue.jobs(), 999u);
}

TEST_F(JobQueueTest, EachIdHasItsTurn) {
  JobQueue queue(WithBatchJobs(1));
  for (int i = 0; i < 3; ++i) Push(queue, "hot");
  Push(queue, "b");
  Push(queue, "c");
  std::vector<std::string> turns;
  while (queue.HasJobs()) turns.push_back(Take(queue).front()->id.key);
  EXPECT_THAT(turns, ElementsAre("hot", "b", "c", "hot", "hot"));
}

TEST_F(JobQueueTest, ABusyVerbDoesNotStarveAnother) {
  JobQueue queue(WithBatchJobs(1));
  for (int i = 0; i < 10; ++i) Push(queue, absl::StrCat("b", i));
  Push(queue, "c", Verb::kComplete);
  for (int i = 10; i < 20; ++i) Push(queue, absl::StrCat("b", i));
  for (int i = 0; i < 10; ++i) Take(queue);
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("c"));
}

// Each of its jobs waits anew, or its verb would always be the oldest.
TEST_F(JobQueueTest, ABusyKeyDoesNotStarveAnotherVerb) {
  JobQueue queue(WithBatchJobs(1));
  for (int i = 0; i < 1000; ++i) Push(queue, "hot");
  Push(queue, "c", Verb::kComplete);
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("hot"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("c"));
}

// --- Bounds ------------------------------------------------------------------

TEST_F(JobQueueTest, RefusesOneJobTooMany) {
  JobQueue::Limits limits = kAmple;
  limits.jobs_max = 2;
  JobQueue queue(limits);
  Push(queue, "a");
  Push(queue, "b");
  EXPECT_FALSE(queue.Push(MakeJob("c"), At(9)));
  EXPECT_EQ(queue.jobs(), 2u);
  Take(queue);
  EXPECT_TRUE(queue.Push(MakeJob("c"), At(9)));
}

TEST_F(JobQueueTest, RefusesOneByteTooMany) {
  JobQueue::Limits limits = kAmple;
  limits.bytes_max = 300;
  JobQueue queue(limits);
  Push(queue, MakeJob("a", Verb::kBegin, 200));
  EXPECT_FALSE(queue.Push(MakeJob("b", Verb::kBegin, 101), At(9)));
  EXPECT_EQ(queue.bytes(), 200u);
  EXPECT_TRUE(queue.Push(MakeJob("c", Verb::kBegin, 100), At(9)));
}

TEST_F(JobQueueTest, QuarantineCountsToo) {
  JobQueue::Limits limits = kAmple;
  limits.jobs_max = 2;
  JobQueue queue(limits);
  Push(queue, "a");
  PushQuarantined(queue, "b", 1);
  EXPECT_FALSE(queue.Push(MakeJob("c"), At(9)));
}

TEST_F(JobQueueTest, BatchHasAtMostBatchBytesMax) {
  JobQueue::Limits limits = kAmple;
  limits.batch_bytes_max = 250;
  JobQueue queue(limits);
  for (const char* key : {"a", "b", "c"}) Push(queue, key);
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("a", "b"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("c"));
}

TEST_F(JobQueueTest, BatchOfExactlyBatchBytesMaxFits) {
  JobQueue::Limits limits = kAmple;
  limits.batch_bytes_max = 200;
  JobQueue queue(limits);
  for (const char* key : {"a", "b", "c"}) Push(queue, key);
  EXPECT_THAT(Take(queue), SizeIs(2));
}

TEST_F(JobQueueTest, AnOverLargeJobGoesAlone) {
  JobQueue::Limits limits = kAmple;
  limits.batch_bytes_max = 250;
  JobQueue queue(limits);
  Push(queue, "a");
  Push(queue, MakeJob("large", Verb::kBegin, 1000));
  Push(queue, "z");
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("a"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("large"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("z"));
}

TEST_F(JobQueueTest, CountsReturnToZero) {
  JobQueue queue(kAmple);
  for (size_t i = 0; i < 50; ++i) {
    Push(queue, MakeJob(absl::StrCat("k", i % 7), Verb::kBegin, 10 + i));
  }
  PushQuarantined(queue, "q", 1);
  while (queue.HasJobs()) Take(queue);
  EXPECT_EQ(queue.jobs(), 1u);
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), SizeIs(1));
  EXPECT_EQ(queue.jobs(), 0u);
  EXPECT_EQ(queue.bytes(), 0u);
}

// --- Return ------------------------------------------------------------------

TEST_F(JobQueueTest, ReturnedGoAheadOfTheOthersInTheirOrder) {
  JobQueue queue(WithBatchJobs(2));
  for (const char* key : {"a", "b"}) Push(queue, key);
  Jobs failed = Take(queue);
  for (const char* key : {"c", "d"}) Push(queue, key);
  queue.Return(std::move(failed), At(100));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("a", "b"));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("c", "d"));
}

TEST_F(JobQueueTest, ReturnedGoAheadOfNewerJobsOfTheirId) {
  JobQueue queue(kAmple);
  const JobPtr older = Push(queue, "a");
  Jobs failed = Take(queue);
  const JobPtr newer = Push(queue, "a");
  queue.Return(std::move(failed), At(100));
  EXPECT_THAT(Take(queue), ElementsAre(older));
  EXPECT_THAT(Take(queue), ElementsAre(newer));
}

// A job of its id that came meanwhile stands at the end of the line, and the
// returned one used to be put before that one only, behind all the others.
TEST_F(JobQueueTest, ReturnedGoAheadOfTheOthersThoughTheirIdIsQueuedAgain) {
  JobQueue queue(WithBatchJobs(1));
  const JobPtr older = Push(queue, "a");
  Jobs failed = Take(queue);
  for (const char* key : {"b", "c", "a"}) Push(queue, key);
  queue.Return(std::move(failed), At(100));
  EXPECT_THAT(Take(queue), ElementsAre(older));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("b"));
}

TEST_F(JobQueueTest, ReturnIsNeverRefused) {
  JobQueue::Limits limits = kAmple;
  limits.jobs_max = 1;
  limits.bytes_max = 100;
  JobQueue queue(limits);
  Push(queue, "a");
  Jobs failed = Take(queue);
  Push(queue, "b");
  queue.Return(std::move(failed), At(100));
  EXPECT_EQ(queue.jobs(), 2u);
  EXPECT_EQ(queue.bytes(), 200u);
}

TEST_F(JobQueueTest, ReturnDropsTheAnswered) {
  JobQueue queue(kAmple);
  MakeAnswered(Push(queue, "a"));
  const JobPtr open = Push(queue, "b");
  Jobs failed = {MakeJob("c"), MakeJob("d")};
  MakeAnswered(failed[0]);
  queue.Return(failed, At(100));
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("b", "d"));
  EXPECT_EQ(queue.bytes(), 0u);
}

// --- Quarantine --------------------------------------------------------------

TEST_F(JobQueueTest, TheTroubledWaitApart) {
  JobQueue queue(kAmple);
  Push(queue, "a");
  const JobPtr troubled = PushQuarantined(queue, "b", 1);
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("a"));
  EXPECT_FALSE(queue.HasJobs());
  EXPECT_TRUE(queue.HasQuarantined(At(1000)));
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), ElementsAre(troubled));
  EXPECT_FALSE(queue.HasQuarantined(At(1000)));
}

TEST_F(JobQueueTest, TheTroubledAreNotTakenBeforeTheirTime) {
  JobQueue queue(kAmple);
  JobPtr job = MakeJob("a");
  job->company_max = 1;
  job->not_before = At(500);
  queue.Return({job}, At(100));
  EXPECT_FALSE(queue.HasQuarantined(At(499)));
  EXPECT_THAT(queue.TakeQuarantined(At(499)), IsEmpty());
  EXPECT_TRUE(queue.HasQuarantined(At(500)));
  EXPECT_THAT(queue.TakeQuarantined(At(500)), ElementsAre(job));
}

TEST_F(JobQueueTest, OneThatWaitsDoesNotHoldUpThoseBehindIt) {
  JobQueue queue(kAmple);
  JobPtr later = MakeJob("a");
  later->company_max = 4;
  later->not_before = At(500);
  queue.Return({later}, At(100));
  const JobPtr now = PushQuarantined(queue, "b", 4);
  EXPECT_THAT(queue.TakeQuarantined(At(400)), ElementsAre(now));
}

TEST_F(JobQueueTest, CompanyIsBoundedByTheMostTroubled) {
  JobQueue queue(kAmple);
  for (const char* key : {"a", "b", "c", "d"}) PushQuarantined(queue, key, 3);
  PushQuarantined(queue, "e", 1);
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), SizeIs(3));
  EXPECT_THAT(KeysOf(queue.TakeQuarantined(At(1000))), ElementsAre("d"));
  EXPECT_THAT(KeysOf(queue.TakeQuarantined(At(1000))), ElementsAre("e"));
}

TEST_F(JobQueueTest, QuarantinedBatchHasOneVerbAndDifferentSortedIds) {
  JobQueue queue(kAmple);
  const JobPtr first = PushQuarantined(queue, "b", 8);
  PushQuarantined(queue, "b", 8);
  PushQuarantined(queue, "c", 8, Verb::kComplete);
  const JobPtr other = PushQuarantined(queue, "a", 8);
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), ElementsAre(other, first));
  EXPECT_THAT(KeysOf(queue.TakeQuarantined(At(1000))), ElementsAre("b"));
  EXPECT_THAT(KeysOf(queue.TakeQuarantined(At(1000))), ElementsAre("c"));
}

TEST_F(JobQueueTest, TheAnsweredAreDroppedFromQuarantine) {
  JobQueue queue(kAmple);
  MakeAnswered(PushQuarantined(queue, "a", 1));
  const JobPtr open = PushQuarantined(queue, "b", 1);
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), ElementsAre(open));
  EXPECT_EQ(queue.jobs(), 0u);
  EXPECT_EQ(queue.bytes(), 0u);
}

// They would meet the same lock, and take a whole batch with them.
TEST_F(JobQueueTest, NewJobsOfASuspectGoIntoQuarantineAlone) {
  JobQueue queue(kAmple);
  const JobPtr troubled = PushQuarantined(queue, "a", 8);
  const JobPtr other = PushQuarantined(queue, "b", 8);
  const JobPtr again = Push(queue, "a");
  EXPECT_FALSE(queue.HasJobs());
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), ElementsAre(troubled, other));
  EXPECT_THAT(queue.TakeQuarantined(At(1000)), ElementsAre(again));
}

// What only reads passes a lock that a change meets.
TEST_F(JobQueueTest, OtherVerbsOfASuspectAreNotSuspect) {
  JobQueue queue(kAmple);
  PushQuarantined(queue, "a", 1);
  const JobPtr watch = Push(queue, "a", Verb::kWatch);
  EXPECT_THAT(Take(queue), ElementsAre(watch));
}

TEST_F(JobQueueTest, NobodyIsSuspectOnceQuarantineIsEmpty) {
  JobQueue queue(kAmple);
  PushQuarantined(queue, "a", 1);
  PushQuarantined(queue, "a", 1);
  queue.TakeQuarantined(At(1000));
  Push(queue, "a");
  EXPECT_FALSE(queue.HasJobs());
  while (!queue.TakeQuarantined(At(1000)).empty()) {
  }
  Push(queue, "a");
  EXPECT_TRUE(queue.HasJobs());
}

// --- Answered meanwhile, and the end -----------------------------------------

TEST_F(JobQueueTest, TheAnsweredAreNotTaken) {
  JobQueue queue(kAmple);
  MakeAnswered(Push(queue, "a"));
  Push(queue, "b");
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("b"));
  EXPECT_EQ(queue.jobs(), 0u);
}

TEST_F(JobQueueTest, RemoveAnsweredFreesTheirRoom) {
  JobQueue queue(kAmple);
  MakeAnswered(Push(queue, "a"));
  Push(queue, "b");
  MakeAnswered(Push(queue, "b"));
  queue.RemoveAnswered();
  EXPECT_EQ(queue.jobs(), 1u);
  EXPECT_EQ(queue.bytes(), 100u);
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("b"));
}

TEST_F(JobQueueTest, RemoveAnsweredKeepsTheOrder) {
  JobQueue queue(WithBatchJobs(1));
  Jobs pushed;
  for (const char* key : {"c", "a", "b", "e", "d"}) {
    pushed.push_back(Push(queue, key));
  }
  MakeAnswered(pushed[2]);
  queue.RemoveAnswered();
  for (const char* key : {"c", "a", "e", "d"}) {
    EXPECT_THAT(KeysOf(Take(queue)), ElementsAre(key));
  }
}

// Sorted by age instead, a key with many calls would have the next turn again
// and again.
TEST_F(JobQueueTest, RemoveAnsweredKeepsTheTurns) {
  JobQueue queue(WithBatchJobs(1));
  for (int i = 0; i < 3; ++i) Push(queue, "hot");
  Push(queue, "other");
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("hot"));
  queue.RemoveAnswered();
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("other"));
}

TEST_F(JobQueueTest, ForEachSeesEveryJobOnce) {
  JobQueue queue(kAmple);
  const JobPtr a = Push(queue, "a");
  const JobPtr again = Push(queue, "a");
  const JobPtr complete = Push(queue, "a", Verb::kComplete);
  const JobPtr troubled = PushQuarantined(queue, "q", 1);
  Jobs seen;
  queue.ForEach([&seen](const JobPtr& job) { seen.push_back(job); });
  EXPECT_THAT(seen, UnorderedElementsAre(a, again, complete, troubled));
}

TEST_F(JobQueueTest, TakeAllLeavesNothing) {
  JobQueue queue(kAmple);
  const JobPtr a = Push(queue, "a");
  const JobPtr troubled = PushQuarantined(queue, "q", 1);
  EXPECT_THAT(queue.TakeAll(), UnorderedElementsAre(a, troubled));
  EXPECT_EQ(queue.jobs(), 0u);
  EXPECT_EQ(queue.bytes(), 0u);
  Push(queue, "q");
  EXPECT_THAT(KeysOf(Take(queue)), ElementsAre("q"));
}

}  // namespace
}  // namespace dedupe
