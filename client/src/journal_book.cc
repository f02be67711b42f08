#include "client/src/journal_book.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "client/src/digest.h"
#include "client/src/journal_line.h"

namespace dedupe::client {
namespace {

using Json = nlohmann::ordered_json;

// Escaped where it is not ASCII, so that every tool shows it alike.
std::string Dump(const Json& record) {
  return record.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true);
}

std::optional<std::string> FindText(const Json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

absl::Status Senseless(absl::string_view payload) {
  return absl::DataLossError("a record of the journal makes no sense: " +
                             std::string(payload));
}

// As LowerHex writes it.
std::optional<std::string> FromLowerHex(const std::optional<std::string>& hex) {
  if (!hex.has_value()) return std::nullopt;
  const bool digits =
      hex->size() % 2 == 0 &&
      hex->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digits) return std::nullopt;
  return absl::HexStringToBytes(*hex);
}

}  // namespace

absl::Status JournalBook::Replay(absl::string_view payload) {
  const Json record = Json::parse(payload.begin(), payload.end(), nullptr,
                                  /*allow_exceptions=*/false);
  if (!record.is_object()) return Senseless(payload);
  const std::optional<std::string> kind = FindText(record, "record");
  const std::optional<std::string> vessel = FindText(record, "vessel");
  const auto at_micros = record.find("at");
  if (!vessel.has_value() || at_micros == record.end() ||
      !at_micros->is_number_integer()) {
    return Senseless(payload);
  }
  const absl::Time at = absl::FromUnixMicros(at_micros->get<int64_t>());
  const WrittenRecord written = {/*number=*/0, payload.size()};
  const BookEntry* known = Find(*vessel);
  const bool is_pending = known != nullptr && !known->intent.settled;
  if (kind == "settle" && is_pending) {
    Settle(*vessel, at, written);
    return absl::OkStatus();
  }
  const std::optional<std::string> key = FindText(record, "key");
  std::optional<std::string> fingerprint =
      FromLowerHex(FindText(record, "fingerprint"));
  if (kind != "intend" || is_pending || !key.has_value() || key->empty() ||
      !fingerprint.has_value()) {
    return Senseless(payload);
  }
  Drop(*vessel);
  Intent intent;
  intent.vessel = *vessel;
  intent.key = *key;
  intent.fingerprint = *std::move(fingerprint);
  intent.created_at = at;
  Add(std::move(intent), written);
  return absl::OkStatus();
}

void JournalBook::Age(absl::Time now) {
  latest_ = std::max(latest_, now);
  while (!settled_.empty()) {
    const Settled& oldest = settled_.front();
    const auto found = entries_.find(oldest.vessel);
    if (found != entries_.end() && found->second.number == oldest.number) {
      if (now - found->second.settled_at < keep_settled_) return;
      Drop(oldest.vessel);
    }
    settled_.pop_front();
  }
}

const BookEntry* JournalBook::Find(absl::string_view vessel) const {
  const auto found = entries_.find(vessel);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string JournalBook::IntendPayload(const Intent& intent) {
  return Dump({{"record", "intend"},
               {"vessel", intent.vessel},
               {"key", intent.key},
               {"fingerprint", LowerHex(intent.fingerprint)},
               {"at", absl::ToUnixMicros(intent.created_at)}});
}

std::string JournalBook::SettlePayload(absl::string_view vessel,
                                       absl::Time at) {
  return Dump({{"record", "settle"},
               {"vessel", std::string(vessel)},
               {"at", absl::ToUnixMicros(at)}});
}

void JournalBook::Add(Intent intent, const WrittenRecord& record) {
  BookEntry entry;
  entry.number = ++last_number_;
  entry.file_bytes = LineBytes(record.payload_bytes);
  entry.record = record.number;
  file_bytes_ += entry.file_bytes;
  latest_ = std::max(latest_, intent.created_at);
  entry.intent = std::move(intent);
  const std::string vessel = entry.intent.vessel;
  entries_.insert_or_assign(vessel, std::move(entry));
}

void JournalBook::Settle(absl::string_view vessel, absl::Time at,
                         const WrittenRecord& record) {
  BookEntry& entry = entries_.find(vessel)->second;
  entry.settled_at = at;
  entry.intent.settled = true;
  entry.record = record.number;
  latest_ = std::max(latest_, at);
  const size_t bytes = LineBytes(record.payload_bytes);
  entry.file_bytes += bytes;
  file_bytes_ += bytes;
  settled_.push_back({entry.intent.vessel, entry.number});
}

absl::Time JournalBook::SettleTime(absl::Time now) const {
  return std::max(now, latest_);
}

void JournalBook::Drop(const std::string& vessel) {
  const auto found = entries_.find(vessel);
  if (found == entries_.end()) return;
  file_bytes_ -= found->second.file_bytes;
  entries_.erase(found);
}

std::vector<const BookEntry*> JournalBook::InOrder() const {
  std::vector<const BookEntry*> entries;
  entries.reserve(entries_.size());
  for (const auto& [vessel, entry] : entries_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const BookEntry* left, const BookEntry* right) {
              return left->number < right->number;
            });
  return entries;
}

std::vector<Intent> JournalBook::Pending() const {
  std::vector<Intent> pending;
  for (const BookEntry* entry : InOrder()) {
    if (!entry->intent.settled) pending.push_back(entry->intent);
  }
  return pending;
}

std::function<std::optional<std::string>()> JournalBook::Payloads() const {
  // The settle records in their own order, which Age relies on.
  return [this, entries = InOrder(), intends = size_t{0},
          settles = size_t{0}]() mutable -> std::optional<std::string> {
    if (intends < entries.size()) {
      return IntendPayload(entries[intends++]->intent);
    }
    while (settles < settled_.size()) {
      const Settled& settled = settled_[settles++];
      const BookEntry* entry = Find(settled.vessel);
      if (entry != nullptr && entry->number == settled.number) {
        return SettlePayload(settled.vessel, entry->settled_at);
      }
    }
    return std::nullopt;
  };
}

}  // namespace dedupe::client
