// What the journal's records say: the intents, by vessel.
//
// A record is a JSON object on one line, of ASCII alone:
//   {"record":"intend","vessel":...,"key":...,"fingerprint":hex,"at":...}
//   {"record":"settle","vessel":...,"at":...}
// "at" is in microseconds since 1970. An intend record follows another of its
// vessel only when that was settled, and has aged.
#ifndef DEDUPE_CLIENT_SRC_JOURNAL_BOOK_H_
#define DEDUPE_CLIENT_SRC_JOURNAL_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dedupe/journal.h"

namespace dedupe::client {

// A record that is in the file.
struct WrittenRecord {
  // As the owner of the book counts them.
  uint64_t number = 0;
  size_t payload_bytes = 0;
};

// An intent and its records.
struct BookEntry {
  Intent intent;
  absl::Time settled_at;
  // Grows with every intent.
  uint64_t number = 0;
  // What its records take in the file.
  size_t file_bytes = 0;
  // The last of its records: WrittenRecord::number.
  uint64_t record = 0;
};

// Not thread-safe.
class JournalBook {
 public:
  explicit JournalBook(absl::Duration keep_settled)
      : keep_settled_(keep_settled) {}

  // Takes in a record of a file. kDataLoss if it makes no sense, in itself or
  // behind those before it.
  absl::Status Replay(absl::string_view payload);

  // Forgets settled intents that have aged.
  void Age(absl::Time now);

  // Null if there is none. Valid until the next call that changes the book.
  const BookEntry* Find(absl::string_view vessel) const;

  // The records of a new intent, and of settling one that is there. They change
  // nothing: that is for Add and Settle, once they are written.
  static std::string IntendPayload(const Intent& intent);
  static std::string SettlePayload(absl::string_view vessel, absl::Time at);
  void Add(Intent intent, const WrittenRecord& record);
  // The vessel is there, and pending.
  void Settle(absl::string_view vessel, absl::Time at,
              const WrittenRecord& record);
  // For what is settled now: never before a time that we have seen.
  absl::Time SettleTime(absl::Time now) const;

  size_t size() const { return entries_.size(); }
  // What the records of all intents take in a file.
  size_t file_bytes() const { return file_bytes_; }
  // Oldest first.
  std::vector<Intent> Pending() const;
  // Gives the records that say the same as all so far. Valid as long as the
  // book is unchanged.
  std::function<std::optional<std::string>()> Payloads() const;

 private:
  struct Settled {
    std::string vessel;
    uint64_t number;
  };

  std::vector<const BookEntry*> InOrder() const;
  void Drop(const std::string& vessel);

  const absl::Duration keep_settled_;
  absl::flat_hash_map<std::string, BookEntry> entries_;
  // In order of settled_at. Those of intents that were replaced are stale.
  std::deque<Settled> settled_;
  absl::Time latest_ = absl::UnixEpoch();
  uint64_t last_number_ = 0;
  size_t file_bytes_ = 0;
};

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_JOURNAL_BOOK_H_
