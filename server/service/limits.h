// Every bound that the server checks, with its unit and its reason. What a
// client may send stands in the comments of dedupe.proto too, which are its
// manual, and is held a second time by the constraints of the migrations:
// tests/store/limits_test.cc keeps the three together.
//
// Defaults of lease and ttl are not here: an unset one is passed on as such,
// and the functions of the migrations, which every caller shares, know them.
#ifndef DEDUPE_SERVER_SERVICE_LIMITS_H_
#define DEDUPE_SERVER_SERVICE_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace dedupe {

// Bytes. 255 is what clients of other services know; both together, twice over,
// still fit into an index entry (about 2,700 bytes) without compression.
inline constexpr size_t kClientIdBytesMax = 255;
inline constexpr size_t kKeyBytesMax = 255;
inline constexpr size_t kOperationBytesMax = 128;
// Room for SHA-512.
inline constexpr size_t kFingerprintBytesMax = 64;
inline constexpr size_t kAttemptIdBytesMax = 64;

// Shorter leases would lapse within one slow commit; longer ones would leave a
// crashed caller's key locked for longer than people wait.
inline constexpr absl::Duration kLeaseMin = absl::Milliseconds(100);
inline constexpr absl::Duration kLeaseMax = absl::Minutes(15);
inline constexpr absl::Duration kTtlMin = absl::Milliseconds(100);
inline constexpr absl::Duration kTtlMax = absl::Hours(24 * 31);
inline constexpr absl::Duration kWaitMax = absl::Seconds(30);

// A response has to fit into one message of every client, whose own limit is
// 4 MiB by default, many times over, because it is stored and replayed.
inline constexpr size_t kBodyBytesMax = 256 * 1024;
inline constexpr size_t kHeadersMax = 64;
// Names and values together.
inline constexpr size_t kHeadersBytesMax = 16 * 1024;
inline constexpr size_t kCheckpointBytesMax = 4 * 1024;

// One message, in either direction: a body, its headers, and room to spare.
inline constexpr int kMessageBytesMax = 1024 * 1024;
// gRPC's own default; per header frame only.
inline constexpr int kMetadataBytesMax = 8 * 1024;

// What an in_progress answer tells callers to wait, unless the lease ends
// sooner: short, because most work is done within a second.
inline constexpr absl::Duration kRetryAfterMax = absl::Seconds(1);
// For RESOURCE_EXHAUSTED and UNAVAILABLE, and for a lease that has lapsed while
// its holder's transaction is still open.
inline constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

// For a quota: what is used up comes back by the second, or by expiry.
inline constexpr absl::Duration kQuotaRetryDelay = absl::Seconds(1);

// Clients may ping as often as this, to find out whether the server is still
// there; who does it more often is cut off. The client library pings each 30 s
// (client/src/client_impl.cc); gRPC's default here, 5 min, would cut it off.
inline constexpr absl::Duration kPingIntervalMin = absl::Seconds(20);

// For a call that brings no deadline, on top of its `wait`.
inline constexpr absl::Duration kDeadlineDefault = absl::Seconds(10);
// Longer ones are cut: nothing here takes longer, and what is never given up
// is never freed.
inline constexpr absl::Duration kDeadlineMax = absl::Seconds(60);

// How often waiting Begins look for changes that passed another server.
inline constexpr absl::Duration kWaitersTick = absl::Milliseconds(25);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_LIMITS_H_
