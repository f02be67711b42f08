// Begins that wait for another attempt to finish. A waiter holds no thread and
// no connection. It is woken by what passes this server, at once, and by what
// passed another, at the next tick: all waiters of a key are served by one look
// at it.
#ifndef DEDUPE_SERVER_SERVICE_WAITERS_H_
#define DEDUPE_SERVER_SERVICE_WAITERS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "server/service/record.h"
#include "server/service/store.h"

namespace dedupe {

// Thread-safe.
class Waiters {
 public:
  // The store must outlive it; waiters_max bounds the memory.
  Waiters(Store& store, size_t waiters_max);
  // As Stop().
  ~Waiters();

  // Called exactly once: it is worth asking again, or there is no time left.
  using Wake = absl::AnyInvocable<void() &&>;

  enum class Place { kFirst, kLast };
  // False if there are too many, or it is stopped; `wake` is then not called.
  // A waiter that was woken in vain goes back to the front.
  bool Add(const RecordId& id, SteadyTime until, CallScope scope, Place place,
           Wake wake);

  // The record has a response: all its waiters want it.
  void WakeAll(const RecordId& id);
  // The record is free: one of its waiters can have it.
  void WakeOne(const RecordId& id);

  // Wakes everybody. Idempotent.
  void Stop();

 private:
  struct Waiter {
    SteadyTime until;
    CallScope scope;
    Wake wake;
  };
  struct Group {
    std::list<Waiter> waiters;
    // The tick of the last look at the record.
    int64_t watched_at = 0;
  };

  void Run();
  struct Tick {
    // Of those whose time is up.
    std::vector<Wake> due;
    std::vector<RecordId> to_watch;
  };
  Tick CollectTick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The keys that were not looked at for longest, and no more than one
  // statement takes.
  std::vector<RecordId> ChooseToWatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch(const RecordId& id);
  void OnWatched(const RecordId& id,
                 const absl::StatusOr<LookupAnswer>& answer);

  Store& store_;
  const size_t waiters_max_;
  // Outlives this object in the callbacks of looks still under way, which find
  // out by it that there is nobody left to wake.
  struct Lifeline {
    absl::Mutex mutex;
    Waiters* owner ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Lifeline> lifeline_;

  absl::Mutex mutex_;
  absl::CondVar waiter_came_;
  absl::flat_hash_map<RecordId, Group> groups_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Looks under way. The next tick's wait until there are none, so that waiting
  // never crowds out work.
  size_t watches_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_WAITERS_H_
