// Who may touch what. A *principal* is somebody who calls: known by a token or
// by the name in a certificate, with a role and the client ids that it may use.
#ifndef DEDUPE_SERVER_SERVICE_ACCESS_H_
#define DEDUPE_SERVER_SERVICE_ACCESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dedupe {

enum class Role {
  // Begin, Complete, Extend, Release, Lookup.
  kCaller,
  // Lookup alone.
  kReader,
  // Everything.
  kAdmin,
  // One that only a later version knows: nothing.
  kUnknown,
};

// "caller", "reader", "admin": as the database and the command line have them;
// "unknown".
const char* RoleName(Role role);
// kUnknown for any other name.
Role RoleOf(absl::string_view name);

// What a principal may use up; unset: as much as it likes. The first two are
// counted by each server for itself, the others over the whole database and a
// few seconds late.
struct Quota {
  std::optional<int64_t> calls_in_flight_max = {};
  std::optional<int64_t> calls_per_second_max = {};
  // Records that have not expired; a Begin that is under way counts as one. A
  // full quota refuses Begins of new keys and nothing else: not replays, and
  // not the completion of what was begun.
  std::optional<int64_t> live_keys_max = {};
  // Bytes of their responses, headers and checkpoints; likewise.
  std::optional<int64_t> stored_bytes_max = {};

  friend bool operator==(const Quota&, const Quota&) = default;
};

struct Principal {
  // 1-128 bytes.
  std::string name;
  Role role = Role::kReader;
  // Each a client id, or the beginning of some and a `*`, such as `shop/*`; `*`
  // alone is all of them.
  std::vector<std::string> client_ids;
  Quota quota;

  friend bool operator==(const Principal&, const Principal&) = default;
};

// Whether one of the principal's patterns fits, byte for byte.
bool MayUse(const Principal& principal, absl::string_view client_id);

struct Token {
  // What is before the dot of a token; not secret.
  std::string id;
  // SHA-256 of what is behind it; 32 bytes.
  std::string sha256;
  // The name of its principal.
  std::string principal;
  // By the database's clock.
  std::optional<absl::Time> expires_at;

  friend bool operator==(const Token&, const Token&) = default;
};

// What a certificate's subject alternative name makes of its bearer.
struct CertificateName {
  // With its kind in front: `uri:spiffe://prod/shop`, `dns:shop.internal`.
  std::string name;
  std::string principal;

  friend bool operator==(const CertificateName&,
                         const CertificateName&) = default;
};

// Everything that is valid at one moment. Revoked tokens are not in it; expired
// ones may be.
struct AccessList {
  std::vector<Principal> principals;
  std::vector<Token> tokens;
  std::vector<CertificateName> certificate_names;

  friend bool operator==(const AccessList&, const AccessList&) = default;
};

struct AccessCommand {
  // Of the list that the asker has; 0 if none. It grows with every change.
  int64_t known_version = 0;
  // Tokens used since the last time, whose time of use is to be kept.
  std::vector<std::string> used_token_ids = {};
};

struct AccessAnswer {
  int64_t version = 0;
  // Unset if `known_version` is the newest.
  std::optional<AccessList> list;
  absl::Time decided_at;
};

// Part of what the records of one pattern amount to: one statement looks at a
// bounded number of rows, and the next goes on behind them.
struct UsageCommand {
  // As in Principal::client_ids.
  std::string pattern;
  // Only records behind this one, in the order of (client_id, key), byte by
  // byte; both empty at the start.
  std::string after_client_id = {};
  std::string after_key = {};
  int row_limit = 0;
};

struct UsageAnswer {
  // Rows looked at; fewer than row_limit: the end.
  int rows = 0;
  int64_t live_keys = 0;
  int64_t stored_bytes = 0;
  // The last of them.
  std::string last_client_id;
  std::string last_key;
  absl::Time decided_at;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_ACCESS_H_
