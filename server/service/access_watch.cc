#include "server/service/access_watch.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/service/reason.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace dedupe {
namespace {

using std::chrono::steady_clock;

// DNS knows no difference of case; URIs do.
std::string Normalised(const std::string& certificate_name) {
  return absl::StartsWith(certificate_name, "dns:")
             ? absl::AsciiStrToLower(certificate_name)
             : certificate_name;
}

}  // namespace

AccessWatch::AccessWatch(Load load, Options options)
    : load_(std::move(load)), options_(options) {
  thread_ = std::thread([this] { Run(); });
}

AccessWatch::~AccessWatch() { Stop(); }

void AccessWatch::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    stop_asked_.SignalAll();
  }
  thread_.join();
}

absl::Status AccessWatch::Status() const {
  absl::ReaderMutexLock lock(&mutex_);
  return StatusAt(steady_clock::now());
}

absl::StatusOr<Caller> AccessWatch::FindByToken(
    const PresentedToken& token) const {
  Caller caller;
  {
    absl::ReaderMutexLock lock(&mutex_);
    const SteadyTime now = steady_clock::now();
    if (absl::Status status = StatusAt(now); !status.ok()) return status;
    const auto found = index_.by_token_id.find(token.id);
    if (found == index_.by_token_id.end() ||
        !SameDigest(found->second.token.sha256, token.sha256)) {
      return Refusal(Reason::kCredentialsRefused);
    }
    const std::optional<absl::Time> expires_at = found->second.token.expires_at;
    if (expires_at.has_value() && *expires_at <= DatabaseTime(now)) {
      return Refusal(Reason::kCredentialsRefused);
    }
    caller = found->second.caller;
  }
  absl::MutexLock lock(&used_mutex_);
  used_token_ids_.insert(token.id);
  return caller;
}

absl::StatusOr<Caller> AccessWatch::FindByCertificate(
    const std::vector<std::string>& names) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (absl::Status status = StatusAt(steady_clock::now()); !status.ok()) {
    return status;
  }
  for (const std::string& name : names) {
    const auto found = index_.by_certificate_name.find(Normalised(name));
    if (found != index_.by_certificate_name.end()) return found->second;
  }
  return Refusal(Reason::kPeerUnknown);
}

std::vector<Caller> AccessWatch::Callers() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<Caller> callers;
  callers.reserve(index_.by_principal.size());
  for (const auto& [name, caller] : index_.by_principal) {
    callers.push_back(caller);
  }
  return callers;
}

void AccessWatch::Run() {
  while (true) {
    ReadOnce();
    absl::MutexLock lock(&mutex_);
    const SteadyTime until =
        steady_clock::now() + absl::ToChronoNanoseconds(options_.interval);
    while (!stopping_ && steady_clock::now() < until) {
      // Abseil waits by the machine's clock, which may be set: so not for long.
      stop_asked_.WaitWithTimeout(
          &mutex_, std::min(options_.interval, absl::Milliseconds(100)));
    }
    if (stopping_) return;
  }
}

void AccessWatch::ReadOnce() {
  AccessCommand command;
  {
    absl::MutexLock lock(&used_mutex_);
    command.used_token_ids.assign(used_token_ids_.begin(),
                                  used_token_ids_.end());
    used_token_ids_.clear();
  }
  const std::vector<std::string> used = command.used_token_ids;
  const SteadyTime asked_at = steady_clock::now();
  {
    absl::MutexLock lock(&mutex_);
    command.known_version = version_;
  }
  absl::StatusOr<AccessAnswer> answer = load_(std::move(command));
  if (!answer.ok()) {
    Log(Severity::kWarning, "access_list_not_read",
        {{"reason", std::string(ReasonName(ReasonOf(answer.status())))}});
    absl::MutexLock lock(&used_mutex_);
    used_token_ids_.insert(used.begin(), used.end());
  }
  absl::MutexLock lock(&mutex_);
  if (answer.ok()) {
    current_at_ = asked_at;
    database_time_ = answer->decided_at;
    version_ = answer->version;
    if (answer->list.has_value()) {
      Replace(*std::move(answer->list));
      Log(Severity::kInfo, "access_list_read",
          {{"version", version_},
           {"principals", static_cast<int64_t>(index_.by_principal.size())},
           {"tokens", static_cast<int64_t>(index_.by_token_id.size())}});
    }
  }
  SetGauge(Metric::kAccessListAge,
           version_ == 0
               ? 0
               : std::chrono::duration_cast<std::chrono::milliseconds>(
                     steady_clock::now() - current_at_)
                     .count());
}

void AccessWatch::Replace(AccessList list) {
  Index index;
  for (Principal& principal : list.principals) {
    const auto known = index_.by_principal.find(principal.name);
    std::shared_ptr<QuotaUse> use = known == index_.by_principal.end()
                                        ? std::make_shared<QuotaUse>()
                                        : known->second.use;
    std::string name = principal.name;
    index.by_principal.emplace(
        std::move(name),
        Caller{std::make_shared<const Principal>(std::move(principal)),
               std::move(use)});
  }
  for (Token& token : list.tokens) {
    const auto owner = index.by_principal.find(token.principal);
    if (owner == index.by_principal.end()) continue;
    std::string id = token.id;
    index.by_token_id.emplace(std::move(id),
                              KnownToken{std::move(token), owner->second});
  }
  for (const CertificateName& name : list.certificate_names) {
    const auto owner = index.by_principal.find(name.principal);
    if (owner == index.by_principal.end()) continue;
    index.by_certificate_name.emplace(Normalised(name.name), owner->second);
  }
  index_ = std::move(index);
}

absl::Status AccessWatch::StatusAt(SteadyTime now) const {
  if (version_ == 0 ||
      now - current_at_ > absl::ToChronoNanoseconds(options_.age_max)) {
    return Refusal(Reason::kStoreDown);
  }
  return absl::OkStatus();
}

absl::Time AccessWatch::DatabaseTime(SteadyTime now) const {
  return database_time_ + absl::FromChrono(now - current_at_);
}

}  // namespace dedupe
