// The jobs that wait for a connection, and which of them go together. No
// threads, no clock: the batcher brings both.
#ifndef DEDUPE_SERVER_STORE_JOB_QUEUE_H_
#define DEDUPE_SERVER_STORE_JOB_QUEUE_H_

#include <array>
#include <cstddef>
#include <deque>
#include <list>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "server/store/job.h"

namespace dedupe {

// Not thread-safe.
class JobQueue {
 public:
  struct Limits {
    size_t jobs_max = 0;
    // Of the jobs' own bytes.
    size_t bytes_max = 0;
    size_t batch_jobs_max = 0;
    size_t batch_bytes_max = 0;
  };

  explicit JobQueue(Limits limits) : limits_(limits) {}

  // False if it would be too much; the job then is not queued. The server's own
  // jobs always have room.
  bool Push(JobPtr job, SteadyTime now);

  // A batch that has failed comes back, whatever the limits, ahead of the
  // others. Jobs with a company_max go into quarantine.
  void Return(std::vector<JobPtr> jobs, SteadyTime now);

  // The next batch: one verb, different ids, sorted by id; empty if there is
  // nothing. Whichever verb and ids have waited longest; an id that has more
  // jobs left waits anew.
  std::vector<JobPtr> Take(SteadyTime now);
  // The same from quarantine: jobs that have met trouble, of which one
  // connection at a time is enough.
  std::vector<JobPtr> TakeQuarantined(SteadyTime now);

  bool HasJobs() const { return lane_jobs_ > 0; }
  bool HasQuarantined(SteadyTime now) const;

  void ForEach(absl::FunctionRef<void(const JobPtr&)> visit) const;
  // Drops what has been answered while it waited.
  void RemoveAnswered();
  std::vector<JobPtr> TakeAll();

  size_t jobs() const { return lane_jobs_ + quarantine_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  // The jobs of one verb. Each id stands in `order` once, with the time since
  // when it waits for its turn, so whatever is taken from the front is of
  // different ids, and a thousand calls on one key hold up nobody else.
  struct Turn {
    const RecordId* id;
    SteadyTime since;
  };
  struct Lane {
    absl::node_hash_map<RecordId, std::list<JobPtr>> by_id;
    std::deque<Turn> order;
  };
  // What met a lock in one verb may pass in another that only reads.
  using Suspect = std::pair<Verb, RecordId>;
  enum class End { kFront, kBack };

  void Put(JobPtr job, End end);
  void Quarantine(JobPtr job);
  Lane* OldestLane();

  const Limits limits_;
  std::array<Lane, kVerbs> lanes_;
  std::deque<JobPtr> quarantine_;
  // How many in quarantine there are of each: new jobs of that kind go there
  // too, because they would meet the same lock.
  absl::flat_hash_map<Suspect, int> suspects_;
  size_t lane_jobs_ = 0;
  size_t bytes_ = 0;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_JOB_QUEUE_H_
