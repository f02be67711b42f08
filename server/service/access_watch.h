// Keeps the list of who may touch what current, and finds callers in it. The
// list is read again and again as a whole, so that no call waits for the
// database to be told who its caller is, and a stranger cannot make it work.
#ifndef DEDUPE_SERVER_SERVICE_ACCESS_WATCH_H_
#define DEDUPE_SERVER_SERVICE_ACCESS_WATCH_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/access.h"
#include "server/service/limits.h"
#include "server/service/quota.h"
#include "server/service/store.h"
#include "server/service/token.h"

namespace dedupe {

// Somebody who calls. Both are shared with the list; neither is ever null.
struct Caller {
  std::shared_ptr<const Principal> principal;
  // Survives changes of the list, for as long as the name is in it.
  std::shared_ptr<QuotaUse> use;
};

// Thread-safe.
class AccessWatch {
 public:
  // Asks the database; blocks.
  using Load = std::function<absl::StatusOr<AccessAnswer>(AccessCommand)>;
  struct Options {
    // Between two readings: how soon a revocation takes effect.
    absl::Duration interval = kAccessInterval;
    // A list that is older is no longer believed, and nobody is let in.
    absl::Duration age_max = kAccessAgeMax;
  };

  // Starts to read at once.
  AccessWatch(Load load, Options options);
  explicit AccessWatch(Load load) : AccessWatch(std::move(load), Options()) {}
  // As Stop().
  ~AccessWatch();
  // Idempotent. The list stays, and ages.
  void Stop();

  // OK: there is a list, and it is not too old. STORE_DOWN.
  absl::Status Status() const;
  // Whose token it is. CREDENTIALS_REFUSED, whatever is wrong with it;
  // STORE_DOWN.
  absl::StatusOr<Caller> FindByToken(const PresentedToken& token) const;
  // Who bears a certificate with these names, of which the first that is known
  // counts. PEER_UNKNOWN, STORE_DOWN.
  absl::StatusOr<Caller> FindByCertificate(
      const std::vector<std::string>& names) const;
  // Everybody in the list.
  std::vector<Caller> Callers() const;

 private:
  struct KnownToken {
    Token token;
    Caller caller;
  };
  struct Index {
    absl::flat_hash_map<std::string, Caller> by_principal;
    absl::flat_hash_map<std::string, KnownToken> by_token_id;
    absl::flat_hash_map<std::string, Caller> by_certificate_name;
  };

  void Run();
  void ReadOnce();
  void Replace(AccessList list) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StatusAt(SteadyTime now) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The database's clock, as it was last heard, carried on.
  absl::Time DatabaseTime(SteadyTime now) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const Load load_;
  const Options options_;

  mutable absl::Mutex mutex_;
  absl::CondVar stop_asked_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Index index_ ABSL_GUARDED_BY(mutex_);
  // 0: there is no list yet.
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the list was last known to be current: before it was asked for.
  SteadyTime current_at_ ABSL_GUARDED_BY(mutex_);
  absl::Time database_time_ ABSL_GUARDED_BY(mutex_);

  // Apart, because every call with a token writes here.
  mutable absl::Mutex used_mutex_;
  mutable absl::flat_hash_set<std::string> used_token_ids_
      ABSL_GUARDED_BY(used_mutex_);

  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_ACCESS_WATCH_H_
