// Begin, run the work, settle: the whole of a server's part in idempotency.
#ifndef DEDUPE_RUN_ONCE_H_
#define DEDUPE_RUN_ONCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dedupe/client.h"
#include "dedupe/outcome.h"

namespace dedupe::client {

// The attempt that runs, as its work sees it. Thread-safe; valid until the work
// returns.
class Attempt {
 public:
  virtual ~Attempt() = default;

  virtual const AttemptInfo& info() const = 0;
  // Asked to stop when the lease may have lapsed, so that another attempt may
  // be at work; when the work has taken longer than work_limit; or when the
  // caller's own stop token is. Work that takes long looks at it, waits with it
  // (std::condition_variable_any), or hangs a std::stop_callback on it (which
  // must return at once), and before each step that has an effect.
  virtual std::stop_token stop_token() const = 0;
  // For certain, counted on the steady clock from the sending of the last
  // Begin or Extend that was answered. Zero if it may have lapsed.
  virtual absl::Duration lease_left() const = 0;
  // What the next attempt shall know if this one fails: its info().checkpoint.
  // 1 byte to 4 KiB; replaces the last. Errors: those of Client;
  // kFailedPrecondition if the lease is lost; kUnavailable if the answer never
  // came.
  virtual absl::Status SaveCheckpoint(absl::string_view checkpoint) = 0;
};

// Runs on the thread that called RunOnce. An exception that leaves it is taken
// for Unknown: it says nothing of what was done before.
// Its what() is in the status's message, which may quote values.
using Work = std::function<WorkResult(Attempt&)>;

// Looks for traces of the earlier attempts of this key: by receipt (see
// receipts.h), by the downstream key (see key.h), by the natural key of what
// was made. Its answer must still be true when the work runs: "not found" is
// NothingHappened only if the earlier attempt, which may be alive and slow,
// cannot do it any more. An exception is taken for Unknown.
using Reconcile = std::function<Reconciled(Attempt&)>;

struct RunOnceRequest {
  // As in BeginRequest. The attempt id is minted by RunOnce for each call.
  std::string client_id;
  std::string key;
  std::string operation = {};
  std::string fingerprint;
  // How long a crashed attempt blocks the key. It is renewed while the work
  // runs, each third of it, so the work may take longer.
  std::optional<absl::Duration> lease = {};
  std::optional<absl::Duration> ttl = {};
  // How long to wait for another attempt's end before answering InProgress. At
  // most 15 min.
  absl::Duration wait = absl::ZeroDuration();
  OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeover;

  // The longest that the work may take: then it is asked to stop and its lease
  // is no longer renewed. 1 ms to 24 h.
  absl::Duration work_limit = absl::Minutes(15);
  // For each of Begin, Complete and Release; see CallOptions.
  std::optional<absl::Duration> timeout = {};
  // Asks the work to stop, such as when the process is told to end. Work that
  // then returns NothingHappened hands the key over at once.
  std::stop_token stop = {};

  // Asked first when an earlier attempt may have acted. Without it the work is
  // run again, and has to look for itself (info().taken_over).
  Reconcile reconcile = {};
};

// Begins; if it is this attempt's turn, runs the work, and settles as it says:
// Done completes, NothingHappened releases, Unknown does neither. A response
// whose body is over kBodyBytesMax is completed without it (body_omitted), one
// that breaks another bound of the server (a control character in a header)
// with its code alone: else the work, which is done, would be begun again.
//
// What survives a crash of this process: nothing but what the server and the
// work have stored. The key's lease lapses, and the next call takes over and
// reconciles.
//
// An error means that the work was not run. Beside those of Client:
//   kInvalidArgument  one of this request's own bounds is broken, or there is
//                     no work
//   kUnavailable      the lease had lapsed before its grant was heard of
//   kCancelled        it was to stop (RunOnceRequest::stop) before the work
//   began
// Thread-safe; does not throw.
absl::StatusOr<RunOnceOutcome> RunOnce(Client& client,
                                       const RunOnceRequest& request,
                                       const Work& work);

}  // namespace dedupe::client

#endif  // DEDUPE_RUN_ONCE_H_
