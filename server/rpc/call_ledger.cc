#include "server/rpc/call_ledger.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace dedupe {
namespace {

using std::chrono::steady_clock;

constexpr absl::Duration kTick = absl::Milliseconds(250);

// All peers of a Unix socket have one name: they cannot be told apart, and are
// on this machine.
bool IsOneConnection(const std::string& peer) {
  return !absl::StartsWith(peer, "unix:");
}

}  // namespace

CallLedger::CallLedger(Limits limits, Cut cut)
    : limits_(limits), cut_(std::move(cut)) {
  thread_ = std::thread([this] { Run(); });
}

CallLedger::~CallLedger() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stop_asked_.SignalAll();
  }
  thread_.join();
}

bool CallLedger::Enter(const std::string& peer, Entry& entry) {
  absl::MutexLock lock(&mutex_);
  if (calls_ >= limits_.calls_max || unread_bytes_ > limits_.unread_bytes_max) {
    return false;
  }
  Connection& connection = connections_[peer];
  if (IsOneConnection(peer) &&
      connection.calls >= limits_.connection_calls_max) {
    return false;
  }
  ++calls_;
  ++connection.calls;
  entry.peer_ = peer;
  SetGauge(Metric::kCallsInFlight, calls_);
  return true;
}

bool CallLedger::MayWait(Entry& entry) {
  absl::MutexLock lock(&mutex_);
  Connection& connection = connections_[entry.peer_];
  if (IsOneConnection(entry.peer_) &&
      connection.waits >= limits_.connection_waits_max) {
    return false;
  }
  ++connection.waits;
  entry.waits_ = true;
  return true;
}

void CallLedger::Reply(Entry& entry, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  entry.unread_since_ = steady_clock::now();
  entry.unread_bytes_ = bytes;
  entry.unread_ = unread_.insert(unread_.end(), &entry);
  entry.is_unread_ = true;
  unread_bytes_ += bytes;
}

void CallLedger::Leave(Entry& entry) {
  absl::MutexLock lock(&mutex_);
  if (entry.is_unread_) {
    unread_.erase(entry.unread_);
    unread_bytes_ -= entry.unread_bytes_;
  }
  const auto connection = connections_.find(entry.peer_);
  if (entry.waits_) --connection->second.waits;
  if (--connection->second.calls == 0) connections_.erase(connection);
  --calls_;
  SetGauge(Metric::kCallsInFlight, calls_);
}

int CallLedger::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

void CallLedger::Run() {
  while (true) {
    std::vector<std::string> peers;
    {
      absl::MutexLock lock(&mutex_);
      if (!stopping_) stop_asked_.WaitWithTimeout(&mutex_, kTick);
      if (stopping_) return;
      peers = PeersToCut(steady_clock::now());
    }
    for (const std::string& peer : peers) {
      Log(Severity::kWarning, "connection_cut",
          {{"why", "its replies are not read"}, {"peer", peer}});
      Count(Metric::kConnectionsCut);
      cut_(peer);
    }
  }
}

std::vector<std::string> CallLedger::PeersToCut(SteadyTime now) {
  std::set<std::string> peers;
  size_t bytes_left = unread_bytes_;
  for (const Entry* entry : unread_) {
    const absl::Duration age = absl::FromChrono(now - entry->unread_since_);
    const bool is_full = bytes_left > limits_.unread_bytes_max / 2;
    if (age < (is_full ? limits_.unread_time_max_when_full
                       : limits_.unread_time_max)) {
      break;
    }
    if (!IsOneConnection(entry->peer_)) continue;
    bytes_left -= entry->unread_bytes_;
    peers.insert(entry->peer_);
  }
  return {peers.begin(), peers.end()};
}

}  // namespace dedupe
