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

}  // namespace

bool JobQueue::Push(JobPtr job, SteadyTime now) {
  if (jobs() >= limits_.jobs_max || bytes_ + job->bytes > limits_.bytes_max) {
    return false;
  }
  job->queued_at = now;
  bytes_ += job->bytes;
  if (!suspects_.empty() && suspects_.contains(job->id)) {
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

std::vector<JobPtr> JobQueue::Take() {
  std::vector<JobPtr> batch;
  Lane* lane = OldestLane();
  if (lane == nullptr) return batch;
  size_t batch_bytes = 0;
  std::vector<const RecordId*> more;
  while (!lane->order.empty() && batch.size() < limits_.batch_jobs_max) {
    const auto group = lane->by_id.find(*lane->order.front());
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
    Forget(*job);
    --lane_jobs_;
    if (!job->answered()) batch.push_back(std::move(job));
    group->second.pop_front();
    if (group->second.empty()) {
      lane->by_id.erase(group);
    } else {
      more.push_back(&group->first);
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
    Forget(**job);
    if (const auto suspect = suspects_.find((*job)->id);
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
  std::vector<JobPtr> open = TakeAll();
  // TakeAll gives no order across ids; what counts is the order within one, and
  // the age of the oldest.
  std::stable_sort(open.begin(), open.end(),
                   [](const JobPtr& a, const JobPtr& b) {
                     return a->queued_at < b->queued_at;
                   });
  for (JobPtr& job : open) {
    if (job->answered()) continue;
    bytes_ += job->bytes;
    if (job->company_max > 0) {
      Quarantine(std::move(job));
    } else {
      Put(std::move(job), End::kBack);
    }
  }
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
  if (is_new) {
    if (end == End::kFront) {
      lane.order.push_front(&group->first);
    } else {
      lane.order.push_back(&group->first);
    }
  }
  if (end == End::kFront) {
    group->second.push_front(std::move(job));
  } else {
    group->second.push_back(std::move(job));
  }
  ++lane_jobs_;
}

void JobQueue::Quarantine(JobPtr job) {
  ++suspects_[job->id];
  quarantine_.push_back(std::move(job));
}

void JobQueue::Forget(const Job& job) { bytes_ -= job.bytes; }

JobQueue::Lane* JobQueue::OldestLane() {
  Lane* oldest = nullptr;
  SteadyTime oldest_time = SteadyTime::max();
  for (Lane& lane : lanes_) {
    if (lane.order.empty()) continue;
    const auto group = lane.by_id.find(*lane.order.front());
    if (const SteadyTime time = group->second.front()->queued_at;
        oldest == nullptr || time < oldest_time) {
      oldest = &lane;
      oldest_time = time;
    }
  }
  return oldest;
}

}  // namespace dedupe
