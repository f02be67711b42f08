#include "client/src/lease_keeper.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace dedupe::client {
namespace {

// Of a lease: two renewals may fail before it lapses.
constexpr int kRenewalsPerLease = 3;
// Of a lease: how soon an unanswered renewal is tried again.
constexpr int kRetriesPerLease = 10;
constexpr int kMarginsPerLease = 20;
constexpr absl::Duration kMarginMax = absl::Seconds(1);

}  // namespace

struct LeaseKeeper::Lease {
  explicit Lease(Terms its_terms)
      : terms(std::move(its_terms)), holds_until(terms.holds_until) {
    renew_at = In(terms.lease / kRenewalsPerLease);
  }

  const Terms terms;
  TimePoint holds_until;
  TimePoint renew_at;
  // The work is at its end, or has been told to stop.
  bool ended = false;
  // Where it is in the queue, if it is.
  std::optional<Queue::iterator> place;

  TimePoint stop_at() const {
    const absl::Duration margin =
        std::min(kMarginMax, terms.lease / kMarginsPerLease);
    return std::min(terms.limit, holds_until - ToSteady(margin));
  }
  TimePoint due() const { return std::min(stop_at(), renew_at); }
  TimePoint In(absl::Duration pause) const {
    return SteadyClock::now() + ToSteady(pause);
  }
};

LeaseKeeper::LeaseKeeper() : thread_([this] { Run(); }) {}

LeaseKeeper::~LeaseKeeper() { Close(); }

void LeaseKeeper::Close() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<LeaseKeeper::Kept> LeaseKeeper::Keep(Terms terms) {
  auto lease = std::make_shared<Lease>(std::move(terms));
  std::lock_guard lock(mutex_);
  Put(lease);
  return std::make_unique<Kept>(*this, std::move(lease));
}

void LeaseKeeper::Put(const std::shared_ptr<Lease>& lease) {
  Take(*lease);
  lease->place = queue_.emplace(lease->due(), lease);
  if (*lease->place == queue_.begin()) changed_.notify_all();
}

void LeaseKeeper::Take(Lease& lease) {
  if (lease.place.has_value()) queue_.erase(*lease.place);
  lease.place.reset();
}

void LeaseKeeper::Run() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (queue_.empty()) {
      changed_.wait(lock);
    } else if (const TimePoint next = queue_.begin()->first;
               SteadyClock::now() < next) {
      changed_.wait_until(lock, next);
    } else {
      const std::shared_ptr<Lease> lease = queue_.begin()->second;
      Take(*lease);
      Attend(lease, lock);
    }
  }
}

void LeaseKeeper::Attend(const std::shared_ptr<Lease>& lease,
                         std::unique_lock<std::mutex>& lock) {
  const TimePoint now = SteadyClock::now();
  if (now >= lease->stop_at()) {
    lease->ended = true;
    // Runs the work's own stop callbacks.
    lock.unlock();
    std::stop_source(lease->terms.stop).request_stop();
    lock.lock();
    return;
  }
  if (now >= lease->renew_at) {
    // Counted from the sending, and whether or not it is answered.
    lease->renew_at = lease->In(lease->terms.lease / kRenewalsPerLease);
    const TimePoint deadline = lease->stop_at();
    lock.unlock();
    lease->terms.renew(
        deadline, [this, lease](Renewal renewal) { Settle(lease, renewal); });
    lock.lock();
  }
  if (!lease->ended) Put(lease);
}

void LeaseKeeper::Settle(const std::shared_ptr<Lease>& lease,
                         const Renewal& renewal) {
  std::unique_lock lock(mutex_);
  if (lease->ended) return;
  switch (renewal.kind) {
    case Renewal::Kind::kRenewed:
      lease->holds_until = std::max(lease->holds_until, renewal.holds_until);
      break;
    case Renewal::Kind::kUnanswered:
      lease->renew_at = std::min(
          lease->renew_at, lease->In(lease->terms.lease / kRetriesPerLease));
      break;
    case Renewal::Kind::kLost:
      lease->holds_until = SteadyClock::now();
      break;
  }
  Put(lease);
}

LeaseKeeper::Kept::~Kept() {
  std::lock_guard lock(keeper_.mutex_);
  lease_->ended = true;
  keeper_.Take(*lease_);
}

LeaseKeeper::TimePoint LeaseKeeper::Kept::holds_until() const {
  std::lock_guard lock(keeper_.mutex_);
  return lease_->holds_until;
}

void LeaseKeeper::Kept::Renewed(TimePoint holds_until) {
  std::lock_guard lock(keeper_.mutex_);
  lease_->holds_until = std::max(lease_->holds_until, holds_until);
}

void LeaseKeeper::Kept::Lost() {
  keeper_.Settle(lease_, {.kind = Renewal::Kind::kLost, .holds_until = {}});
}

}  // namespace dedupe::client
