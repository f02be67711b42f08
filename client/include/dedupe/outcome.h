// What calls of dedupe can come to. Expected outcomes are values, held in a
// std::variant, so that the compiler asks for each; only what a caller cannot
// act on is an absl::Status.
#ifndef DEDUPE_OUTCOME_H_
#define DEDUPE_OUTCOME_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dedupe/response.h"

namespace dedupe::client {

// Times are of the server's database, whose clock is the only one that counts.
// Do not compare them with this machine's.

// --- Begin -------------------------------------------------------------------

// Run, then Complete with this fence.
struct Started {
  // Grows with every change of holder, greater than zero. Show it to other
  // stores, so that they refuse an attempt whose successor they have seen.
  int64_t fence = 0;
  // 1 for the first attempt at this key.
  int32_t attempt_number = 0;
  absl::Time lease_expires_at;
  // This same attempt held the lease already: its Begin was repeated.
  bool resumed = false;
  // An earlier attempt let its lease lapse, and may have acted: find out before
  // acting again.
  bool taken_over = false;
  // What the last holder left by Extend, at most 4 KiB; empty if nothing.
  std::string checkpoint = {};
  // Until then the lease holds for certain: what was left of it at the
  // decision, counted on this machine's steady clock from the sending of the
  // request that was answered. What the answer took on its way is never counted
  // as held.
  std::chrono::steady_clock::time_point holds_until;
};

// Do not run: here is the response of the attempt that did.
struct Replay {
  Response response;
  absl::Time completed_at;
  // From this moment on the key is unknown again.
  absl::Time expires_at;
};

// Do not run: another attempt is at it.
struct InProgress {
  absl::Time started_at;
  absl::Time lease_expires_at;
  // When to ask again; greater than zero.
  absl::Duration retry_after;
};

// Do not run: the key belongs to another request. A bug of whoever sent it.
struct Mismatch {
  absl::Time first_seen_at;
};

// Do not run: an attempt under kHold let its lease lapse, and may have acted.
struct InDoubt {
  absl::Time since;
  int32_t attempt_number = 0;
};

// --- Settling ----------------------------------------------------------------

struct Completed {
  absl::Time completed_at;
  // The record is kept until then.
  absl::Time expires_at;
  // This attempt had completed with this response before.
  bool already_completed = false;
};

struct Extended {
  absl::Time lease_expires_at;
  // As in Started.
  std::chrono::steady_clock::time_point holds_until;
};

struct Released {
  absl::Time expires_at;
};

// The record did not allow it: nothing was changed, and repeating is of no use.
// Where an answer was lost and the call repeated, an earlier sending may have
// done its work before the record came to this.
struct Refused {
  enum class Reason {
    // Another attempt has taken the key over, or it was released.
    kLeaseLost,
    // No such record, or past its window.
    kKeyUnknown,
    // Complete: this attempt has stored another response, which stays.
    kResponseConflict,
    // Extend, Release: this attempt has completed.
    kAlreadyCompleted,
  };
  Reason reason = Reason::kLeaseLost;

  friend bool operator==(const Refused&, const Refused&) = default;
};

// --- Never heard of ----------------------------------------------------------

// The answer never came, or could not be understood: what was asked for may
// have happened or not. Asking again is safe, with the same arguments.
struct Unknown {
  // Why: what the last try came to, or what the work said. Never OK.
  absl::Status status;
};

using BeginOutcome =
    std::variant<Started, Replay, InProgress, Mismatch, InDoubt, Unknown>;
using CompleteOutcome = std::variant<Completed, Refused, Unknown>;
using ExtendOutcome = std::variant<Extended, Refused, Unknown>;
using ReleaseOutcome = std::variant<Released, Refused, Unknown>;

// --- What the work of RunOnce says -------------------------------------------

// Over and done with, a refusal that repeating would only repeat (a refused
// card) included: store this response.
struct Done {
  Response response;
};

// Nothing has changed anywhere, and nothing will: free the key for the next
// attempt, which runs at once and is not told to look.
struct NothingHappened {
  // For this caller; it is not stored.
  std::optional<Response> answer = {};
};

// Unknown: something may have happened. The key is neither completed nor freed;
// its lease lapses, and the next attempt is told that it takes over.
using WorkResult = std::variant<Done, NothingHappened, Unknown>;

// What a look for traces of an earlier attempt says. Done: it acted, and this
// was its response. NothingHappened: it did not and never can any more; run.
// Unknown: cannot tell now; do not run.
using Reconciled = std::variant<Done, NothingHappened, Unknown>;

// --- RunOnce -----------------------------------------------------------------

// The work is done and its response is stored: by this call, which ran it, or
// which found what an earlier attempt had done.
struct Ran {
  Response response;
  absl::Time completed_at;
  absl::Time expires_at;
  // The work was not run: reconciling found the response.
  bool reconciled = false;
};

// The work said NothingHappened; the key is free, at the latest when its lease
// has lapsed. (Under kHold it may then be in doubt: if Release was not heard.)
struct Freed {
  std::optional<Response> answer = {};
};

// The work was done, and dedupe may not know it. The response is right; give it
// to the caller. The next attempt at the key takes over and reconciles.
struct NotRecorded {
  Response response;
  // Why: that another attempt has taken over (kFailedPrecondition: it may have
  // acted too), or what Complete's last try came to.
  absl::Status status;
};

using RunOnceOutcome = std::variant<Ran, Replay, InProgress, Mismatch, InDoubt,
                                    Freed, NotRecorded, Unknown>;

// --- Lookup ------------------------------------------------------------------

enum class RecordState {
  // Never seen, or past its window.
  kAbsent,
  kInProgress,
  kReleased,
  kInDoubt,
  kCompleted,
};

// Only what the state has is set.
struct Record {
  RecordState state = RecordState::kAbsent;
  std::string operation;
  int32_t attempt_number = 0;
  // When the key was first seen.
  std::optional<absl::Time> created_at;
  std::optional<absl::Time> started_at;
  std::optional<absl::Time> lease_expires_at;
  std::optional<absl::Time> completed_at;
  std::optional<absl::Time> expires_at;
  std::optional<Response> response;
  absl::Time decided_at;
};

// --- Who runs ----------------------------------------------------------------

// An attempt that holds a key, as its work, the hooks and receipts see it.
struct AttemptInfo {
  std::string client_id;
  std::string key;
  std::string attempt_id;
  int64_t fence = 0;
  int32_t attempt_number = 0;
  bool taken_over = false;
  std::string checkpoint = {};
  // When this record began its life. Set if taken_over, before the work runs.
  // What bears an older date belongs to a record of the same key that has
  // expired.
  std::optional<absl::Time> first_seen_at = {};
};

}  // namespace dedupe::client

#endif  // DEDUPE_OUTCOME_H_
