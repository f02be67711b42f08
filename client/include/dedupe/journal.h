// The journal: where a client writes down the key of what it is about to ask
// for, before it asks.
//
// A key that lives in memory dies with the process, and a restarted client
// would mint a second key for the same intent: two charges. So the key is
// written to a local file and synced before the first send, and found again by
// the intent's *vessel*: an id of the caller's choosing for the thing that
// holds the intent, such as a checkout page, a queue item or a form. The key
// follows the vessel, not the process, and not the fields of the request.
//
//   auto journal = Journal::Open("/var/lib/shop/intents");
//   auto intent = (*journal)->Intend("checkout-4711", fingerprint);  // synced
//   ... send with intent->key, as often as it takes ...
//   (*journal)->Settle("checkout-4711");            // the answer is in
//
// What survives a crash at any moment, power loss included (as far as the disk
// keeps its word about fdatasync): every intent that Intend has returned. What
// does not: an intent whose Intend had not returned; nothing was sent with it.
//
// The file is text, one record to a line, each with its length and a checksum.
// Beside it are PATH.lock, which stays, and for moments PATH.new. Copying or
// restoring an old copy brings back old intents: a settled one may look
// pending, which is harmless while the server keeps the record (its ttl). A
// deleted file forgets every intent: the next Intend mints new keys, and the
// protection is gone. An emptied one is kDataLoss, because no crash empties it.
//
// A process with a limit on the size of its files (RLIMIT_FSIZE) ignores
// SIGXFSZ, or the kernel ends it where it would get kResourceExhausted.
#ifndef DEDUPE_JOURNAL_H_
#define DEDUPE_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dedupe::client {

struct Intent {
  std::string vessel;
  std::string key;
  // As given to Intend.
  std::string fingerprint;
  // This machine's clock, for people; nothing depends on it but keep_settled.
  absl::Time created_at;
  // The answer is in. Its key stays the vessel's for
  // JournalOptions::keep_settled.
  bool settled = false;
  // This very call minted the key.
  bool minted = false;
};

struct JournalOptions {
  // How long the key of a settled intent is remembered; then the vessel's name
  // may be used for another intent. At least as long as the server keeps the
  // record (its ttl), or a late retry would be a new request. By this machine's
  // clock: one that is set back makes it longer, never shorter; one that is set
  // forward makes it shorter. 0 s to 366 days.
  absl::Duration keep_settled = absl::Hours(7 * 24);
  // Intents, pending and settled. Intend is refused beyond. 1 to 10 million.
  size_t intents_max = 1'000'000;
  // This machine's clock, another one in tests. Called in the journal's mutex.
  std::function<absl::Time()> now = absl::Now;
};

// Bytes. Vessels are not empty, and UTF-8 without control characters (category
// Cc). Fingerprints are any bytes.
inline constexpr size_t kVesselBytesMax = 255;
inline constexpr size_t kJournalFingerprintBytesMax = 64;

// What Open found and mended.
struct JournalRecovery {
  // Cut off behind the last whole record: an append that a crash interrupted,
  // whose Intend or Settle never returned. Worth a line in the caller's log.
  uint64_t torn_bytes = 0;
  // The file was not there, and was made.
  bool created = false;
};

// Thread-safe. One process at a time: the file is locked by the kernel, which
// frees it when the process ends, however it ends, and with it the children
// that it made by fork() and that neither exec'd nor destroyed their copy of
// the journal. No member throws.
//
// Errors, of all functions, by code:
//   kInvalidArgument     a vessel, fingerprint or option out of bounds; a path
//                        to no regular file, or to a folder that is not there
//   kAlreadyExists       Intend: the vessel's intent has another fingerprint.
//                        A changed request is a new intent: give it a vessel of
//                        its own
//   kNotFound            Settle: no such intent
//   kFailedPrecondition  the file is in use by another journal, here or in
//                        another process; or this journal was inherited over
//                        fork(), where it must not be used
//   kPermissionDenied    the file or its folder is closed to us, or read-only
//   kResourceExhausted   the disk, the quota or intents_max is full. Nothing is
//                        changed; works again when there is room
//   kDataLoss            the file is damaged elsewhere than at a torn end, or
//                        empty. It is left as it is, for a person to look at:
//                        guessing would lose intents, and lost intents get
//                        second keys
//   kUnimplemented       written by a newer version; left as it is
//   kUnavailable         any other error of the system, or the file was
//                        replaced, deleted or written to by somebody else.
//                        After one this journal stays shut: what the disk holds
//                        is unknown until it is opened again
// With any error from Intend, nothing may be sent.
class Journal {
 public:
  // Reads, recovers, locks; makes the file (mode 0600) if it is not there. Its
  // folder has to exist.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(
      const std::string& path, const JournalOptions& options = {});

  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // The key of this vessel's intent: the one that it has, pending or settled,
  // or else a new one, which is on the disk when this returns. fingerprint says
  // what is asked for, such as one of fingerprint.h, and may be empty; a vessel
  // that comes back with another is kAlreadyExists.
  absl::StatusOr<Intent> Intend(absl::string_view vessel,
                                absl::string_view fingerprint = {});

  // The answer is in: nothing will be sent for it again. Over HTTP, an answer
  // is any status but 401, 403, 408, 409, 425, 429 and 5xx, which ask for the
  // same request again, later, or a replay of one (Idempotent-Replayed).
  // Settling twice is OK. On the disk when it returns.
  absl::Status Settle(absl::string_view vessel);

  // What was asked for and not settled, oldest first: what a client sends again
  // when it starts.
  absl::StatusOr<std::vector<Intent>> Pending() const;

  const JournalRecovery& recovery() const;

 private:
  class Impl;
  explicit Journal(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace dedupe::client

#endif  // DEDUPE_JOURNAL_H_
