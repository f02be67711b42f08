// Which calls are in flight, from their first byte of work until their reply is
// taken; how many each connection has; and whose replies lie unread.
//
// gRPC 1.51 needs it beside its own limit of streams. A stream that its peer
// has reset no longer counts there, while its handler goes on: whoever sends
// calls and resets them could start any number. And a reply that its peer does
// not read stays in memory, uncounted, for as long as the connection lasts.
#ifndef DEDUPE_SERVER_RPC_CALL_LEDGER_H_
#define DEDUPE_SERVER_RPC_CALL_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/service/limits.h"
#include "server/service/store.h"

namespace dedupe {

// Thread-safe.
class CallLedger {
 public:
  struct Limits {
    int calls_max = 0;
    int connection_calls_max = kConnectionStreamsMax;
    int connection_waits_max = kConnectionWaitsMax;
    size_t unread_bytes_max = kUnreadBytesMax;
    absl::Duration unread_time_max = kUnreadTimeMax;
    absl::Duration unread_time_max_when_full = kUnreadTimeMaxWhenFull;
  };
  // Ends the connection of a peer, as grpc::ServerContext::peer() names it.
  using Cut = std::function<void(const std::string& peer)>;

  // One call's entry; empty if it was not let in.
  class Entry {
   public:
    bool empty() const { return peer_.empty(); }

   private:
    friend class CallLedger;

    std::string peer_;
    bool waits_ = false;
    bool is_unread_ = false;
    std::list<Entry*>::iterator unread_;
    SteadyTime unread_since_;
    size_t unread_bytes_ = 0;
  };

  CallLedger(Limits limits, Cut cut);
  ~CallLedger();
  CallLedger(const CallLedger&) = delete;
  CallLedger& operator=(const CallLedger&) = delete;

  // False if there are too many, of all or of this connection. The entry must
  // stay where it is until Leave().
  bool Enter(const std::string& peer, Entry& entry);
  // Whether this call may wait for another attempt. Part of a connection's
  // calls only, because a wait holds its stream for long, and the Complete that
  // would end it may have to come by the same connection.
  bool MayWait(Entry& entry);
  // Its reply is on its way.
  void Reply(Entry& entry, size_t bytes);
  // Nothing of it is left.
  void Leave(Entry& entry);

  int calls() const;

 private:
  struct Connection {
    int calls = 0;
    int waits = 0;
  };

  void Run();
  std::vector<std::string> PeersToCut(SteadyTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  const Cut cut_;

  mutable absl::Mutex mutex_;
  absl::CondVar stop_asked_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, Connection> connections_
      ABSL_GUARDED_BY(mutex_);
  // The oldest first.
  std::list<Entry*> unread_ ABSL_GUARDED_BY(mutex_);
  size_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;

  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_CALL_LEDGER_H_
