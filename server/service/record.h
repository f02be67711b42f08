// The nouns. A *record* is what is known of one (client id, key): at most one
// *attempt* at a time *holds* it, by a *lease*, and is known by its *fence*.
#ifndef DEDUPE_SERVER_SERVICE_RECORD_H_
#define DEDUPE_SERVER_SERVICE_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace dedupe {

// Names a record. Compared byte for byte.
struct RecordId {
  std::string client_id;
  std::string key;

  friend bool operator==(const RecordId&, const RecordId&) = default;
  friend auto operator<=>(const RecordId&, const RecordId&) = default;

  template <typename H>
  friend H AbslHashValue(H state, const RecordId& id) {
    return H::combine(std::move(state), id.client_id, id.key);
  }
};

// Who may change a record: the attempt, and the fence it was given.
struct Holder {
  std::string attempt_id;
  int64_t fence = 0;
};

enum class OnLeaseExpiry { kTakeover, kHold };

struct Header {
  std::string name;
  std::string value;

  friend bool operator==(const Header&, const Header&) = default;
};

// What a caller answers to its own client. Kept byte for byte.
struct Response {
  int32_t code = 0;
  std::vector<Header> headers;
  std::string body;
  // The body was too large to keep; it is empty then.
  bool body_omitted = false;

  friend bool operator==(const Response&, const Response&) = default;
};

// The calls. An unset duration is the default of the database's functions.

struct BeginCommand {
  RecordId id;
  std::string operation;
  std::string fingerprint;
  std::string attempt_id;
  std::optional<absl::Duration> lease;
  std::optional<absl::Duration> ttl;
  OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeover;
};

struct CompleteCommand {
  RecordId id;
  Holder holder;
  Response response;
};

struct ExtendCommand {
  RecordId id;
  Holder holder;
  std::optional<absl::Duration> lease;
  // Empty keeps the one before.
  std::string checkpoint;
};

struct ReleaseCommand {
  RecordId id;
  Holder holder;
  bool forget_fingerprint = false;
};

struct LookupCommand {
  RecordId id;
};

// The answers. Times are the database's; decided_at is its clock at the
// decision. What the fields mean to a caller stands in dedupe.proto.

struct Started {
  int64_t fence = 0;
  int32_t attempt_number = 0;
  absl::Time lease_expires_at;
  bool resumed = false;
  bool taken_over = false;
  std::string checkpoint;

  friend bool operator==(const Started&, const Started&) = default;
};

struct Replay {
  Response response;
  absl::Time completed_at;
  absl::Time expires_at;

  friend bool operator==(const Replay&, const Replay&) = default;
};

struct InProgress {
  absl::Time started_at;
  absl::Time lease_expires_at;

  friend bool operator==(const InProgress&, const InProgress&) = default;
};

struct Mismatch {
  absl::Time first_seen_at;

  friend bool operator==(const Mismatch&, const Mismatch&) = default;
};

struct InDoubt {
  absl::Time since;
  int32_t attempt_number = 0;

  friend bool operator==(const InDoubt&, const InDoubt&) = default;
};

using BeginOutcome =
    std::variant<Started, Replay, InProgress, Mismatch, InDoubt>;

struct BeginAnswer {
  BeginOutcome outcome;
  absl::Time decided_at;

  friend bool operator==(const BeginAnswer&, const BeginAnswer&) = default;
};

struct CompleteAnswer {
  absl::Time completed_at;
  absl::Time expires_at;
  bool already_completed = false;
  absl::Time decided_at;

  friend bool operator==(const CompleteAnswer&,
                         const CompleteAnswer&) = default;
};

struct ExtendAnswer {
  absl::Time lease_expires_at;
  absl::Time decided_at;

  friend bool operator==(const ExtendAnswer&, const ExtendAnswer&) = default;
};

struct ReleaseAnswer {
  absl::Time expires_at;
  absl::Time decided_at;

  friend bool operator==(const ReleaseAnswer&, const ReleaseAnswer&) = default;
};

enum class RecordState {
  kAbsent,
  kInProgress,
  kReleased,
  kInDoubt,
  kCompleted,
};

struct LookupAnswer {
  RecordState state = RecordState::kAbsent;
  std::string operation;
  int32_t attempt_number = 0;
  std::optional<absl::Time> created_at;
  std::optional<absl::Time> started_at;
  std::optional<absl::Time> lease_expires_at;
  std::optional<absl::Time> completed_at;
  std::optional<absl::Time> expires_at;
  // Set if completed.
  std::optional<Response> response;
  absl::Time decided_at;

  friend bool operator==(const LookupAnswer&, const LookupAnswer&) = default;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_RECORD_H_
