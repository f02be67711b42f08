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
constexpr std::chrono::seconds kWastedWindow{1};

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
    cut_or_stop_asked_.SignalAll();
  }
  thread_.join();
}

bool CallLedger::Enter(const std::string& peer, Entry& entry) {
  absl::MutexLock lock(&mutex_);
  Connection& connection = connections_[peer];
  ++connection.entries;
  entry.peer_ = peer;
  if (IsOneConnection(peer) &&
      (connection.calls >= limits_.connection_calls_max ||
       connection.unread_bytes > limits_.connection_unread_bytes_max)) {
    CountWasted(peer);
    return false;
  }
  if (calls_ >= limits_.calls_max) return false;
  ++calls_;
  ++connection.calls;
  entry.is_in_ = true;
  SetGauge(Metric::kCallsInFlight, calls_);
  return true;
}

void CallLedger::Waste(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  CountWasted(peer);
}

void CallLedger::CountWasted(const std::string& peer) {
  if (!IsOneConnection(peer)) return;
  if (++wasted_calls_[peer] != limits_.connection_wasted_calls_max) return;
  wasters_.push_back(peer);
  cut_or_stop_asked_.Signal();
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

bool CallLedger::Reply(Entry& entry, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  Connection& connection = connections_[entry.peer_];
  if (bytes > kSmallReplyBytesMax &&
      (unread_bytes_ + bytes > limits_.unread_bytes_max ||
       (IsOneConnection(entry.peer_) &&
        connection.unread_bytes + bytes >
            limits_.connection_unread_bytes_max))) {
    return false;
  }
  entry.unread_since_ = steady_clock::now();
  entry.unread_bytes_ = bytes;
  entry.unread_ = unread_.insert(unread_.end(), &entry);
  entry.is_unread_ = true;
  unread_bytes_ += bytes;
  connection.unread_bytes += bytes;
  return true;
}

void CallLedger::Leave(Entry& entry) {
  absl::MutexLock lock(&mutex_);
  const auto found = connections_.find(entry.peer_);
  Connection& connection = found->second;
  if (entry.is_unread_) {
    unread_.erase(entry.unread_);
    unread_bytes_ -= entry.unread_bytes_;
    connection.unread_bytes -= entry.unread_bytes_;
  }
  if (entry.waits_) --connection.waits;
  if (entry.is_in_) {
    --connection.calls;
    --calls_;
    SetGauge(Metric::kCallsInFlight, calls_);
  }
  if (--connection.entries == 0) connections_.erase(found);
}

int CallLedger::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

void CallLedger::Run() {
  while (true) {
    std::vector<PeerToCut> peers;
    {
      absl::MutexLock lock(&mutex_);
      if (!stopping_ && wasters_.empty()) {
        cut_or_stop_asked_.WaitWithTimeout(&mutex_, kTick);
      }
      if (stopping_) return;
      peers = PeersToCut(steady_clock::now());
    }
    for (const PeerToCut& cut : peers) {
      if (!cut_(cut.peer, cut.keep_out)) continue;
      Count(Metric::kConnectionsCut);
      Log(Severity::kWarning, "connection_cut",
          {{"why", cut.why}, {"peer", cut.peer}});
    }
  }
}

std::vector<CallLedger::PeerToCut> CallLedger::PeersToCut(SteadyTime now) {
  std::vector<PeerToCut> cuts;
  for (std::string& peer : wasters_) {
    cuts.push_back(
        {std::move(peer), "it resets its calls, or sends too many", kKeepOut});
  }
  wasters_.clear();
  if (now - wasted_since_ >= kWastedWindow) {
    wasted_calls_.clear();
    wasted_since_ = now;
  }
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
  for (const std::string& peer : peers) {
    cuts.push_back({peer, "its replies are not read", absl::ZeroDuration()});
  }
  return cuts;
}

}  // namespace dedupe
