#include "tests/support/memory_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dedupe::testing {
namespace {

// As the contract gives them.
constexpr absl::Duration kDefaultLease = absl::Seconds(30);
constexpr absl::Duration kDefaultTtl = absl::Hours(24);
constexpr size_t kFinishedRemembered = 64;

}  // namespace

// A record in progress lives until lease end + ttl, one under HOLD for ever;
// a released or completed one for ttl from then on.
std::optional<absl::Time> MemoryStore::Record::End() const {
  switch (state) {
    case State::kReleased:
      return released_at + ttl;
    case State::kCompleted:
      return completed_at + ttl;
    case State::kRunning:
      break;
  }
  if (policy == OnLeaseExpiry::kHold) return std::nullopt;
  return lease_end + ttl;
}

bool MemoryStore::Record::LiveAt(absl::Time now) const {
  const std::optional<absl::Time> end = End();
  return !end.has_value() || now < *end;
}

// An answer never is from before what it tells of, even if the clock has been
// set back.
absl::Time MemoryStore::Record::NotBefore(absl::Time now) const {
  return std::max({now, started_at, completed_at});
}

bool MemoryStore::Record::Finished(const std::string& attempt) const {
  return std::find(finished.begin(), finished.end(), attempt) != finished.end();
}

// Headers count as the JSON text that jsonb gives: [["a", "1"], ["b", "2"]].
int64_t MemoryStore::Record::StoredBytes() const {
  size_t bytes = response.body.size();
  // A completion drops it.
  if (state != State::kCompleted) bytes += checkpoint.size();
  if (!response.headers.empty()) bytes += 2 * response.headers.size();
  for (const Header& header : response.headers) {
    bytes += nlohmann::json(header.name).dump().size() +
             nlohmann::json(header.value).dump().size() + 4;
  }
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<BeginAnswer> MemoryStore::Decide(const BeginCommand& command,
                                                absl::Time now) {
  const auto found = records_.find(command.id);
  if (found == records_.end()) {
    return Start(records_[command.id], command, now, false);
  }
  Record& record = found->second;
  if (!record.LiveAt(now)) {
    // A new record; of the old one only the fence counts.
    const int64_t fence = record.fence;
    record = Record();
    record.fence = fence;
    return Start(record, command, now, false);
  }
  const bool bound = record.fingerprint.has_value();
  if (bound && (record.fingerprint != command.fingerprint ||
                record.operation != command.operation)) {
    return BeginAnswer{Mismatch{record.first_seen_at}, record.NotBefore(now)};
  }
  if (record.state == State::kCompleted) {
    return BeginAnswer{Replay{record.response, record.completed_at,
                              record.completed_at + record.ttl},
                       record.NotBefore(now)};
  }
  if (record.Finished(command.attempt_id)) {
    return Refusal(Reason::kAttemptFinished);
  }
  if (record.state == State::kReleased) {
    return Start(record, command, now, false);
  }
  if (record.attempt_id == command.attempt_id) {
    return Start(record, command, now, true);
  }
  if (now < record.lease_end) {
    return BeginAnswer{InProgress{record.started_at, record.lease_end},
                       record.NotBefore(now)};
  }
  if (record.policy == OnLeaseExpiry::kHold) {
    return BeginAnswer{InDoubt{record.lease_end, record.attempt_number},
                       record.NotBefore(now)};
  }
  record.taken_over = true;
  return Start(record, command, now, false);
}

BeginAnswer MemoryStore::Start(Record& record, const BeginCommand& command,
                               absl::Time now, bool resumed) {
  const absl::Time lease_end = now + command.lease.value_or(kDefaultLease);
  if (resumed) {
    record.lease_end = std::max(record.lease_end, lease_end);
  } else {
    if (record.attempt_number == 0) record.first_seen_at = now;
    ++record.attempt_number;
    record.fence = std::max(record.fence + 1, absl::ToUnixMicros(now));
    record.attempt_id = command.attempt_id;
    record.started_at = now;
    record.lease_end = lease_end;
  }
  record.state = State::kRunning;
  record.fingerprint = command.fingerprint;
  record.operation = command.operation;
  record.ttl = command.ttl.value_or(kDefaultTtl);
  record.policy = command.on_lease_expiry;
  Started started;
  started.fence = record.fence;
  started.attempt_number = record.attempt_number;
  started.lease_expires_at = record.lease_end;
  started.resumed = resumed;
  started.taken_over = record.taken_over;
  started.checkpoint = record.checkpoint;
  return {started, now};
}

absl::StatusOr<MemoryStore::Record*> MemoryStore::FindHeld(const RecordId& id,
                                                           const Holder& holder,
                                                           absl::Time now) {
  const auto found = records_.find(id);
  if (found == records_.end() || !found->second.LiveAt(now)) {
    return Refusal(Reason::kKeyUnknown);
  }
  Record& record = found->second;
  if (record.attempt_id != holder.attempt_id || record.fence != holder.fence) {
    return Refusal(Reason::kLeaseLost);
  }
  return &record;
}

absl::StatusOr<CompleteAnswer> MemoryStore::Decide(
    const CompleteCommand& command, absl::Time now) {
  const auto held = FindHeld(command.id, command.holder, now);
  if (!held.ok()) return held.status();
  Record& record = **held;
  if (record.state == State::kReleased) return Refusal(Reason::kLeaseLost);
  const bool again = record.state == State::kCompleted;
  if (again && record.response != command.response) {
    return Refusal(Reason::kResponseConflict);
  }
  if (!again) {
    record.state = State::kCompleted;
    record.completed_at = now;
    record.response = command.response;
  }
  return CompleteAnswer{record.completed_at, record.completed_at + record.ttl,
                        again, std::max(now, record.completed_at)};
}

absl::StatusOr<ExtendAnswer> MemoryStore::Decide(const ExtendCommand& command,
                                                 absl::Time now) {
  const auto held = FindHeld(command.id, command.holder, now);
  if (!held.ok()) return held.status();
  Record& record = **held;
  if (record.state == State::kReleased) return Refusal(Reason::kLeaseLost);
  if (record.state == State::kCompleted) {
    return Refusal(Reason::kAlreadyCompleted);
  }
  record.lease_end =
      std::max(record.lease_end, now + command.lease.value_or(kDefaultLease));
  if (!command.checkpoint.empty()) record.checkpoint = command.checkpoint;
  return ExtendAnswer{record.lease_end, now};
}

absl::StatusOr<ReleaseAnswer> MemoryStore::Decide(const ReleaseCommand& command,
                                                  absl::Time now) {
  const auto held = FindHeld(command.id, command.holder, now);
  if (!held.ok()) return held.status();
  Record& record = **held;
  if (record.state == State::kCompleted) {
    return Refusal(Reason::kAlreadyCompleted);
  }
  if (record.state == State::kRunning) {
    record.state = State::kReleased;
    record.released_at = now;
    record.finished.push_back(record.attempt_id);
    if (record.finished.size() > kFinishedRemembered) {
      record.finished.pop_front();
    }
  }
  if (command.forget_fingerprint) {
    record.fingerprint.reset();
    record.operation.clear();
  }
  return ReleaseAnswer{record.released_at + record.ttl, now};
}

absl::StatusOr<LookupAnswer> MemoryStore::Decide(const LookupCommand& command,
                                                 absl::Time now) {
  LookupAnswer answer;
  answer.decided_at = now;
  const auto found = records_.find(command.id);
  if (found == records_.end() || !found->second.LiveAt(now)) return answer;
  const Record& record = found->second;
  answer.decided_at = record.NotBefore(now);
  answer.operation = record.operation;
  answer.attempt_number = record.attempt_number;
  answer.created_at = record.first_seen_at;
  answer.started_at = record.started_at;
  answer.expires_at = record.End();
  switch (record.state) {
    case State::kRunning: {
      const bool in_doubt =
          record.policy == OnLeaseExpiry::kHold && record.lease_end <= now;
      answer.state =
          in_doubt ? RecordState::kInDoubt : RecordState::kInProgress;
      answer.lease_expires_at = record.lease_end;
      break;
    }
    case State::kReleased:
      answer.state = RecordState::kReleased;
      break;
    case State::kCompleted:
      answer.state = RecordState::kCompleted;
      answer.completed_at = record.completed_at;
      answer.response = record.response;
      break;
  }
  return answer;
}

absl::StatusOr<LookupAnswer> MemoryStore::Decide(const WatchCommand& command,
                                                 absl::Time now) {
  auto answer = Decide(LookupCommand{command.id}, now);
  answer->response.reset();
  return answer;
}

// Nobody can tell a swept record from an expired one, except that its fence is
// forgotten, which the clock then stands in for.
absl::StatusOr<ReapAnswer> MemoryStore::Decide(const ReapCommand& command,
                                               absl::Time now) {
  ReapAnswer answer;
  answer.decided_at = now;
  answer.clock_refused = command.latest.has_value() && now > *command.latest;
  if (answer.clock_refused) return answer;
  for (auto entry = records_.begin();
       entry != records_.end() && answer.examined < command.row_limit;) {
    const Record& record = entry->second;
    if (record.LiveAt(now)) {
      ++entry;
      continue;
    }
    answer.lag = std::max(answer.lag, now - *record.End());
    ++answer.examined;
    ++answer.deleted;
    entry = records_.erase(entry);
  }
  return answer;
}

absl::StatusOr<ProbeAnswer> MemoryStore::Decide(const ProbeCommand&,
                                                absl::Time now) {
  return ProbeAnswer{1, 1, now};
}

absl::StatusOr<AccessAnswer> MemoryStore::Decide(const AccessCommand& command,
                                                 absl::Time now) {
  AccessAnswer answer;
  answer.version = access_version_;
  if (command.known_version != access_version_) answer.list = access_;
  answer.decided_at = now;
  return answer;
}

absl::StatusOr<UsageAnswer> MemoryStore::Decide(const UsageCommand& command,
                                                absl::Time now) {
  Principal asker;
  asker.client_ids = {command.pattern};
  UsageAnswer answer;
  answer.decided_at = now;
  for (const auto& [id, record] : records_) {
    if (answer.rows == command.row_limit) break;
    if (id <= RecordId{command.after_client_id, command.after_key} ||
        !MayUse(asker, id.client_id)) {
      continue;
    }
    ++answer.rows;
    answer.last_client_id = id.client_id;
    answer.last_key = id.key;
    if (!record.LiveAt(now)) continue;
    ++answer.live_keys;
    answer.stored_bytes += record.StoredBytes();
  }
  return answer;
}

template <typename Command, typename Answer>
void MemoryStore::Serve(const Command& command, Callback<Answer> done) {
  absl::StatusOr<Answer> answer = absl::UnknownError("not decided");
  {
    absl::MutexLock lock(&mutex_);
    answer =
        failure_.has_value() ? Refusal(*failure_) : Decide(command, clock_());
  }
  // Outside, because an answer may lead straight to the next call.
  std::move(done)(std::move(answer));
}

void MemoryStore::Fail(std::optional<Reason> reason) {
  absl::MutexLock lock(&mutex_);
  failure_ = reason;
}

void MemoryStore::SetAccess(AccessList list) {
  absl::MutexLock lock(&mutex_);
  access_ = std::move(list);
  ++access_version_;
}

void MemoryStore::Begin(BeginCommand command, CallScope,
                        Callback<BeginAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::Complete(CompleteCommand command, CallScope,
                           Callback<CompleteAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::Extend(ExtendCommand command, CallScope,
                         Callback<ExtendAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::Release(ReleaseCommand command, CallScope,
                          Callback<ReleaseAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::Lookup(LookupCommand command, CallScope,
                         Callback<LookupAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::Watch(WatchCommand command, CallScope,
                        Callback<LookupAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::Reap(ReapCommand command, CallScope,
                       Callback<ReapAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::Probe(ProbeCommand command, CallScope,
                        Callback<ProbeAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::LoadAccess(AccessCommand command, CallScope,
                             Callback<AccessAnswer> done) {
  Serve(command, std::move(done));
}

void MemoryStore::MeasureUsage(UsageCommand command, CallScope,
                               Callback<UsageAnswer> done) {
  Serve(command, std::move(done));
}

}  // namespace dedupe::testing
