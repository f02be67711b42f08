// Hosts that may not connect for a while.
#ifndef DEDUPE_SERVER_TRANSPORT_KEPT_OUT_H_
#define DEDUPE_SERVER_TRANSPORT_KEPT_OUT_H_

#include <algorithm>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dedupe {

// Each had a connection just before, so that there are never many. Thread-safe.
class KeptOut {
 public:
  // Never shortens a time; an empty name is nobody's.
  void Add(const std::string& host, absl::Time until) {
    if (host.empty()) return;
    absl::MutexLock lock(&mutex_);
    absl::Time& known = until_.try_emplace(host, until).first->second;
    known = std::max(known, until);
  }
  // Forgets all whose time is over.
  bool Contains(const std::string& host, absl::Time now) {
    absl::MutexLock lock(&mutex_);
    if (until_.empty()) return false;
    absl::erase_if(until_,
                   [now](const auto& one) { return one.second <= now; });
    return until_.contains(host);
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, absl::Time> until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TRANSPORT_KEPT_OUT_H_
