#include "server/store/job_queue.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace dedupe {
namespace {

void SortById(std::vector<JobPtr>& batch) {
  // Every batch of every server locks its rows in this order.
  std::sort(batch.begin(), batch.end(),
            [](const JobPtr& a, const JobPtr& b) { return a->id < b->id; });
}

// The server's own, of which there is one at a time. A flood of calls must not
// keep it from learning that a token was revoked, or that the database is well.
bool IsOwn(Verb verb) {
  switch (verb) {
    case Verb::kReap:
    case Verb::kProbe:
    case Verb::kAccess:
    case Verb::kUsage:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool JobQueue::Push(JobPtr job, SteadyTime now) {
  if (!IsOwn(job->verb) &&
      (jobs() >= limits_.jobs_max || bytes_ + job->bytes > limits_.bytes_max)) {
    return false;
  }
  job->queued_at = now;
  bytes_ += job->bytes;
  if (!suspects_.empty() && suspects_.contains({job->verb, job->id})) {
    job->company_max = 1;
    Quarantine(std::move(job));
  } else {
    Put(std::move(job), End::kBack);
  }
  return true;
}

void JobQueue::Return(std::vector<JobPtr> jobs, SteadyTime now) {
  // Backwards, so that the first is in front again.
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    if ((*job)->answered()) continue;
    bytes_ += (*job)->bytes;
    if ((*job)->company_max > 0) {
      (*job)->not_before = std::max((*job)->not_before, now);
      Quarantine(std::move(*job));
    } else {
      Put(std::move(*job), End::kFront);
    }
  }
}

std::vector<JobPtr> JobQueue::Take(SteadyTime now) {
  std::vector<JobPtr> batch;
  Lane* lane = OldestLane();
  if (lane == nullptr) return batch;
  size_t batch_bytes = 0;
  std::vector<Turn> more;
  while (!lane->order.empty() && batch.size() < limits_.batch_jobs_max) {
    const auto group = lane->by_id.find(*lane->order.front().id);
    JobPtr& job = group->second.front();
    if (!job->answered()) {
      // One job may be larger than the limit: it then goes alone.
      if (!batch.empty() &&
          batch_bytes + job->bytes > limits_.batch_bytes_max) {
        break;
      }
      batch_bytes += job->bytes;
    }
    lane->order.pop_front();
    bytes_ -= job->bytes;
    --lane_jobs_;
    if (!job->answered()) batch.push_back(std::move(job));
    group->second.pop_front();
    if (group->second.empty()) {
      lane->by_id.erase(group);
    } else {
      more.push_back({&group->first, now});
    }
  }
  lane->order.insert(lane->order.end(), more.begin(), more.end());
  SortById(batch);
  return batch;
}

std::vector<JobPtr> JobQueue::TakeQuarantined(SteadyTime now) {
  std::vector<JobPtr> batch;
  absl::flat_hash_set<RecordId> ids;
  size_t company_max = 0;
  for (auto job = quarantine_.begin(); job != quarantine_.end();) {
    const bool fits = batch.empty() || ((*job)->verb == batch.front()->verb &&
                                        !ids.contains((*job)->id));
    if ((*job)->not_before > now || !fits) {
      ++job;
      continue;
    }
    company_max = batch.empty() ? (*job)->company_max
                                : std::min(company_max, (*job)->company_max);
    if (batch.size() >= company_max) break;
    bytes_ -= (*job)->bytes;
    if (const auto suspect = suspects_.find({(*job)->verb, (*job)->id});
        --suspect->second == 0) {
      suspects_.erase(suspect);
    }
    ids.insert((*job)->id);
    if (!(*job)->answered()) batch.push_back(std::move(*job));
    job = quarantine_.erase(job);
  }
  SortById(batch);
  return batch;
}

bool JobQueue::HasQuarantined(SteadyTime now) const {
  return std::any_of(
      quarantine_.begin(), quarantine_.end(),
      [now](const JobPtr& job) { return job->not_before <= now; });
}

void JobQueue::ForEach(absl::FunctionRef<void(const JobPtr&)> visit) const {
  for (const Lane& lane : lanes_) {
    for (const auto& [id, jobs] : lane.by_id) {
      for (const JobPtr& job : jobs) visit(job);
    }
  }
  for (const JobPtr& job : quarantine_) visit(job);
}

void JobQueue::RemoveAnswered() {
  for (Lane& lane : lanes_) {
    std::deque<Turn> order;
    for (const Turn& turn : lane.order) {
      const auto group = lane.by_id.find(*turn.id);
      group->second.remove_if([this](const JobPtr& job) {
        if (!job->answered()) return false;
        bytes_ -= job->bytes;
        --lane_jobs_;
        return true;
      });
      if (group->second.empty()) {
        lane.by_id.erase(group);
      } else {
        order.push_back(turn);
      }
    }
    lane.order = std::move(order);
  }
  // Those in quarantine are few, and left out when their turn comes.
}

std::vector<JobPtr> JobQueue::TakeAll() {
  std::vector<JobPtr> all;
  all.reserve(jobs());
  for (Lane& lane : lanes_) {
    for (auto& [id, jobs] : lane.by_id) {
      all.insert(all.end(), jobs.begin(), jobs.end());
    }
    lane.by_id.clear();
    lane.order.clear();
  }
  all.insert(all.end(), quarantine_.begin(), quarantine_.end());
  quarantine_.clear();
  suspects_.clear();
  lane_jobs_ = 0;
  bytes_ = 0;
  return all;
}

void JobQueue::Put(JobPtr job, End end) {
  Lane& lane = lanes_[static_cast<size_t>(job->verb)];
  const auto [group, is_new] = lane.by_id.try_emplace(job->id);
  const Turn turn = {&group->first, job->queued_at};
  if (end == End::kFront) {
    // Newer jobs of its id may stand anywhere; their turn comes sooner with it.
    if (!is_new) {
      lane.order.erase(std::find_if(
          lane.order.begin(), lane.order.end(),
          [&turn](const Turn& other) { return other.id == turn.id; }));
    }
    lane.order.push_front(turn);
    group->second.push_front(std::move(job));
  } else {
    if (is_new) lane.order.push_back(turn);
    group->second.push_back(std::move(job));
  }
  ++lane_jobs_;
}

void JobQueue::Quarantine(JobPtr job) {
  ++suspects_[{job->verb, job->id}];
  quarantine_.push_back(std::move(job));
}

JobQueue::Lane* JobQueue::OldestLane() {
  Lane* oldest = nullptr;
  for (Lane& lane : lanes_) {
    if (lane.order.empty()) continue;
    if (oldest == nullptr ||
        lane.order.front().since < oldest->order.front().since) {
      oldest = &lane;
    }
  }
  return oldest;
}

}  // namespace dedupe
