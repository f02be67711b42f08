#include "server/service/waiters.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/service/limits.h"

namespace dedupe {
namespace {

// How long a look may take: a later tick looks again.
constexpr std::chrono::seconds kWatchDeadline(1);
// Keys that one tick looks at.
constexpr size_t kWatchesMax = 128;

enum class Verdict { kWait, kWakeOne, kWakeAll };

Verdict Judge(const LookupAnswer& answer) {
  switch (answer.state) {
    case RecordState::kInProgress:
      // Lapsed, and whoever comes first may have it.
      return answer.lease_expires_at <= answer.decided_at ? Verdict::kWakeOne
                                                          : Verdict::kWait;
    case RecordState::kAbsent:
    case RecordState::kReleased:
      return Verdict::kWakeOne;
    case RecordState::kInDoubt:
    case RecordState::kCompleted:
      break;
  }
  return Verdict::kWakeAll;
}

}  // namespace

Waiters::Waiters(Store& store, size_t waiters_max)
    : store_(store),
      waiters_max_(waiters_max),
      lifeline_(std::make_shared<Lifeline>()) {
  {
    absl::MutexLock lock(&lifeline_->mutex);
    lifeline_->owner = this;
  }
  thread_ = std::thread([this] { Run(); });
}

Waiters::~Waiters() {
  Stop();
  absl::MutexLock lock(&lifeline_->mutex);
  lifeline_->owner = nullptr;
}

bool Waiters::Add(const RecordId& id, SteadyTime until, CallScope scope,
                  Place place, Wake wake) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || waiting_ >= waiters_max_) return false;
  ++waiting_;
  std::list<Waiter>& waiters = groups_[id].waiters;
  waiters.insert(place == Place::kFirst ? waiters.begin() : waiters.end(),
                 {until, std::move(scope), std::move(wake)});
  waiter_came_.Signal();
  return true;
}

void Waiters::WakeAll(const RecordId& id) {
  std::list<Waiter> woken;
  {
    absl::MutexLock lock(&mutex_);
    const auto group = groups_.find(id);
    if (group == groups_.end()) return;
    woken.swap(group->second.waiters);
    waiting_ -= woken.size();
    groups_.erase(group);
  }
  for (Waiter& waiter : woken) std::move(waiter.wake)();
}

void Waiters::WakeOne(const RecordId& id) {
  std::list<Waiter> woken;
  {
    absl::MutexLock lock(&mutex_);
    const auto group = groups_.find(id);
    if (group == groups_.end()) return;
    std::list<Waiter>& waiters = group->second.waiters;
    woken.splice(woken.begin(), waiters, waiters.begin());
    --waiting_;
    if (waiters.empty()) groups_.erase(group);
  }
  for (Waiter& waiter : woken) std::move(waiter.wake)();
}

void Waiters::Stop() {
  absl::flat_hash_map<RecordId, Group> groups;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    groups.swap(groups_);
    waiting_ = 0;
    waiter_came_.Signal();
  }
  for (auto& [id, group] : groups) {
    for (Waiter& waiter : group.waiters) std::move(waiter.wake)();
  }
  thread_.join();
}

void Waiters::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && groups_.empty()) waiter_came_.Wait(&mutex_);
      if (stopping_) return;
    }
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kWaitersTick));
    Tick tick;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      tick = CollectTick();
    }
    for (Wake& wake : tick.due) std::move(wake)();
    for (const RecordId& id : tick.to_watch) Watch(id);
  }
}

Waiters::Tick Waiters::CollectTick() {
  Tick tick;
  const SteadyTime now = std::chrono::steady_clock::now();
  for (auto group = groups_.begin(); group != groups_.end();) {
    std::list<Waiter>& waiters = group->second.waiters;
    for (auto waiter = waiters.begin(); waiter != waiters.end();) {
      if (waiter->until > now && !waiter->scope.cancelled()) {
        ++waiter;
        continue;
      }
      tick.due.push_back(std::move(waiter->wake));
      waiter = waiters.erase(waiter);
      --waiting_;
    }
    if (waiters.empty()) {
      groups_.erase(group++);
      continue;
    }
    ++group;
  }
  ++ticks_;
  if (watches_ == 0) tick.to_watch = ChooseToWatch();
  watches_ += tick.to_watch.size();
  return tick;
}

std::vector<RecordId> Waiters::ChooseToWatch() {
  std::vector<std::pair<int64_t, const RecordId*>> candidates;
  candidates.reserve(groups_.size());
  for (const auto& [id, group] : groups_) {
    candidates.emplace_back(group.watched_at, &id);
  }
  if (candidates.size() > kWatchesMax) {
    std::nth_element(candidates.begin(), candidates.begin() + kWatchesMax,
                     candidates.end());
    candidates.resize(kWatchesMax);
  }
  std::vector<RecordId> chosen;
  chosen.reserve(candidates.size());
  for (const auto& [watched_at, id] : candidates) {
    chosen.push_back(*id);
    groups_[*id].watched_at = ticks_;
  }
  return chosen;
}

void Waiters::Watch(const RecordId& id) {
  store_.Watch(
      {id}, CallScope(std::chrono::steady_clock::now() + kWatchDeadline),
      [id, lifeline = lifeline_](const absl::StatusOr<LookupAnswer>& answer) {
        absl::MutexLock lock(&lifeline->mutex);
        if (lifeline->owner != nullptr) lifeline->owner->OnWatched(id, answer);
      });
}

void Waiters::OnWatched(const RecordId& id,
                        const absl::StatusOr<LookupAnswer>& answer) {
  {
    absl::MutexLock lock(&mutex_);
    --watches_;
  }
  if (!answer.ok()) return;
  switch (Judge(*answer)) {
    case Verdict::kWait:
      return;
    case Verdict::kWakeOne:
      WakeOne(id);
      return;
    case Verdict::kWakeAll:
      WakeAll(id);
      return;
  }
}

}  // namespace dedupe
