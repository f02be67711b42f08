// The journal's file: records in order, each a payload of one line of text, and
// the system calls that keep them.
// How a record becomes a line is journal_line.h's, what it says
// journal_book.h's. An end is torn, and cut by Open, if it is ReadLine's kTorn.
#ifndef DEDUPE_CLIENT_SRC_JOURNAL_FILE_H_
#define DEDUPE_CLIENT_SRC_JOURNAL_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dedupe/journal.h"

namespace dedupe::client {

// An open file, closed by the destructor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  int number() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Not thread-safe, except that Sync may run beside Append and CheckInPlace.
class JournalFile {
 public:
  // Is given each record's payload in order, without record 0. An error of its
  // own ends Open with it, before anything is mended.
  using Replay = std::function<absl::Status(absl::string_view payload)>;
  // The payloads to write, one by one; none ends them.
  using Payloads = std::function<std::optional<std::string>()>;
  enum class Rewritten {
    kYes,
    // Nothing has changed.
    kNo,
    // The new content is in place, but a power loss may bring back the old: the
    // file must not be used.
    kInDoubt,
  };

  // Locks, makes the file if it is not there, reads, cuts a torn end. All that
  // replay was given is on the disk when this returns. Errors as in journal.h.
  static absl::StatusOr<std::unique_ptr<JournalFile>> Open(
      const std::string& path, const Replay& replay);

  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  // Writes a record behind the others; Sync brings it to the disk. Errors:
  // kResourceExhausted if there is no room, and nothing has changed;
  // kUnavailable if the content is unknown and the file must not be used.
  absl::Status Append(absl::string_view payload);
  // Of all appended before the call. Errors: kUnavailable, as above.
  absl::Status Sync() const;
  // kUnavailable if the path names another file now, or none, or somebody else
  // has written to it: what we append, nobody would read.
  absl::Status CheckInPlace() const;
  // Replaces all records, on the disk when it returns. Not beside any other
  // member.
  Rewritten Rewrite(const Payloads& payloads);

  uint64_t size() const { return size_; }
  const JournalRecovery& recovery() const { return recovery_; }

 private:
  explicit JournalFile(std::string path) : path_(std::move(path)) {}

  absl::Status Lock();
  absl::Status OpenData();
  absl::Status Create();
  absl::Status Recover(const Replay& replay);
  absl::Status TakeBack(int error);

  // Absolute, without symbolic links, so that every name of the file leads to
  // one lock.
  std::string path_;
  Descriptor lock_;
  Descriptor folder_;
  Descriptor data_;
  uint64_t size_ = 0;
  uint64_t records_ = 0;
  JournalRecovery recovery_;
};

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_JOURNAL_FILE_H_
