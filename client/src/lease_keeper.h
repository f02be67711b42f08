// Renews the leases of attempts while their work runs, and tells the work to
// stop when its lease may have lapsed. One thread for all leases of a client.
#ifndef DEDUPE_CLIENT_SRC_LEASE_KEEPER_H_
#define DEDUPE_CLIENT_SRC_LEASE_KEEPER_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "client/src/pause.h"

namespace dedupe::client {

class LeaseKeeper {
 public:
  using TimePoint = SteadyClock::time_point;

  struct Renewal {
    enum class Kind {
      kRenewed,
      // Nothing is known; tried again.
      kUnanswered,
      // Somebody else has the key.
      kLost,
    };
    Kind kind = Kind::kUnanswered;
    // If renewed: until then the lease holds for certain.
    TimePoint holds_until;
  };
  // Sends one Extend, whose answer must be there by the deadline, and returns
  // at once; `done` is called exactly once, on any thread, also within the
  // call.
  using Renew = std::function<void(TimePoint deadline,
                                   std::function<void(Renewal)> done)>;

  struct Terms {
    TimePoint holds_until;
    // How long a renewal lasts. It is renewed each third of it.
    absl::Duration lease;
    // No renewal after this; the work is told to stop.
    TimePoint limit;
    Renew renew;
    // Asked to stop at the limit, or a twentieth of the lease (at most 1 s)
    // before it may have lapsed, for the work to come to its end.
    std::stop_source stop;
  };

  // Keeps a lease until it is destroyed. Renewals on their way then are without
  // effect. Thread-safe.
  class Kept;

  // Starts the thread; throws std::system_error if there is none to be had.
  LeaseKeeper();
  // All leases must have been destroyed.
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  std::unique_ptr<Kept> Keep(Terms terms);
  // Begins no renewal afterwards. Idempotent.
  void Close();

 private:
  struct Lease;
  using Queue = std::multimap<TimePoint, std::shared_ptr<Lease>>;

  void Run();
  // The lease has come up: does what is due of it, and puts it back.
  void Attend(const std::shared_ptr<Lease>& lease,
              std::unique_lock<std::mutex>& lock);
  // Into the queue, at the place that its times say, and out of it.
  void Put(const std::shared_ptr<Lease>& lease);
  void Take(Lease& lease);
  void Settle(const std::shared_ptr<Lease>& lease, const Renewal& renewal);

  std::mutex mutex_;
  // Guarded by mutex_, like what is in the leases but for their terms.
  std::condition_variable changed_;
  Queue queue_;
  bool closing_ = false;
  // Last: it uses the rest.
  std::thread thread_;
};

class LeaseKeeper::Kept {
 public:
  Kept(LeaseKeeper& keeper, std::shared_ptr<Lease> lease)
      : keeper_(keeper), lease_(std::move(lease)) {}
  ~Kept();
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  TimePoint holds_until() const;
  // The work itself has renewed it, or has been told that it is lost.
  void Renewed(TimePoint holds_until);
  void Lost();

 private:
  LeaseKeeper& keeper_;
  const std::shared_ptr<Lease> lease_;
};

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_LEASE_KEEPER_H_
