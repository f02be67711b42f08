// Which calls are in flight, from their first byte of work until their reply is
// taken; how many each connection has; and whose replies lie unread.
//
// gRPC 1.51 needs it beside its own limit of streams. A stream that its peer
// has reset no longer counts there, while its handler goes on: whoever sends
// calls and resets them could start any number. A peer that never accepts the
// server's settings is not held to the limit at all. And a reply that its peer
// does not read stays in memory, uncounted, for as long as the connection
// lasts.
//
// To take a call in and refuse it costs gRPC some 0.1 ms, and while it does
// that for one peer the others wait: who goes on sending such calls is cut.
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
    int connection_wasted_calls_max = kConnectionWastedCallsMax;
    size_t unread_bytes_max = kUnreadBytesMax;
    size_t connection_unread_bytes_max = kConnectionUnreadBytesMax;
    absl::Duration unread_time_max = kUnreadTimeMax;
    absl::Duration unread_time_max_when_full = kUnreadTimeMaxWhenFull;
  };
  // Ends the connection of a peer, as grpc::ServerContext::peer() names it.
  // False if it has none any more. keep_out: how long its address shall have no
  // new one.
  using Cut =
      std::function<bool(const std::string& peer, absl::Duration keep_out)>;

  // One call's entry; empty until Enter().
  class Entry {
   public:
    bool empty() const { return peer_.empty(); }

   private:
    friend class CallLedger;

    std::string peer_;
    bool is_in_ = false;
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

  // False if there are too many, of all or of this connection, which then is
  // wasted too if it is the connection's fault. The entry must stay where it is
  // until Leave(), let in or not: a refusal is a reply.
  bool Enter(const std::string& peer, Entry& entry);
  // A call that its peer had reset before anything was done for it. Has no
  // entry.
  void Waste(const std::string& peer);
  // Whether this call may wait for another attempt. Part of a connection's
  // calls only, because a wait holds its stream for long, and the Complete that
  // would end it may have to come by the same connection.
  bool MayWait(Entry& entry);
  // Its reply is on its way, unless that is false: it is a large one, and there
  // are too many bytes that lie unread, of all or of this connection. Another,
  // small reply always has room.
  bool Reply(Entry& entry, size_t bytes);
  // Nothing of it is left.
  void Leave(Entry& entry);

  int calls() const;

 private:
  struct Connection {
    // Of these, `calls` were let in.
    int entries = 0;
    int calls = 0;
    int waits = 0;
    size_t unread_bytes = 0;
  };
  struct PeerToCut {
    std::string peer;
    const char* why = "";
    absl::Duration keep_out;
  };

  void Run();
  void CountWasted(const std::string& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<PeerToCut> PeersToCut(SteadyTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  const Cut cut_;

  mutable absl::Mutex mutex_;
  absl::CondVar cut_or_stop_asked_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, Connection> connections_
      ABSL_GUARDED_BY(mutex_);
  // The oldest first.
  std::list<Entry*> unread_ ABSL_GUARDED_BY(mutex_);
  size_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // By peer, in this second.
  absl::flat_hash_map<std::string, int> wasted_calls_ ABSL_GUARDED_BY(mutex_);
  SteadyTime wasted_since_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> wasters_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_RPC_CALL_LEDGER_H_
