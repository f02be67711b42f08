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
#include <cstdint>

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

// Of a principal; every server holds them all in memory.
inline constexpr size_t kPrincipalNameBytesMax = 128;
inline constexpr size_t kClientIdPatternsMax = 64;
inline constexpr size_t kCertificateNamesMax = 64;
// The kind, and as much as a SPIFFE ID may have.
inline constexpr size_t kCertificateNameBytesMax = 4 + 2048;
// Quotas beyond these are no quotas.
inline constexpr int64_t kCallsInFlightQuotaMax = 1'000'000;
inline constexpr int64_t kCallsPerSecondQuotaMax = 1'000'000'000;
inline constexpr int64_t kLiveKeysQuotaMax = 1'000'000'000'000;
inline constexpr int64_t kStoredBytesQuotaMax = 1'000'000'000'000'000;
// Shorter ones expire on their way to whoever is to use them; ten years are
// for ever.
inline constexpr absl::Duration kTokenLifetimeMin = absl::Seconds(1);
inline constexpr absl::Duration kTokenLifetimeMax = absl::Hours(24 * 3653);

// What an in_progress answer tells callers to wait, unless the lease ends
// sooner: short, because most work is done within a second.
inline constexpr absl::Duration kRetryAfterMax = absl::Seconds(1);
// For RESOURCE_EXHAUSTED and UNAVAILABLE, and for a lease that has lapsed while
// its holder's transaction is still open.
inline constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

// For a quota: what is used up comes back by the second, or by expiry.
inline constexpr absl::Duration kQuotaRetryDelay = absl::Seconds(1);

// How often the list of principals and tokens is read, and so how soon a
// revocation takes effect; and how old it may become, while the database does
// not answer, before nobody is let in any more. Such a database answers no
// other call either, so the longer time costs nothing, and forgives a hiccup.
inline constexpr absl::Duration kAccessInterval = absl::Seconds(1);
inline constexpr absl::Duration kAccessAgeMax = absl::Seconds(15);

// For a call that brings no deadline, on top of its `wait`.
inline constexpr absl::Duration kDeadlineDefault = absl::Seconds(10);
// Longer ones are cut: nothing here takes longer, and what is never given up
// is never freed.
inline constexpr absl::Duration kDeadlineMax = absl::Seconds(60);

// How often waiting Begins look for changes that passed another server.
inline constexpr absl::Duration kWaitersTick = absl::Milliseconds(25);

// --- The listener ------------------------------------------------------------

// One message, in either direction: a body, its headers, and room to spare.
inline constexpr int kMessageBytesMax = 1024 * 1024;
// gRPC's own default; per header frame only.
inline constexpr int kMetadataBytesMax = 8 * 1024;

// Calls at a time on one connection. gRPC's default is four thousand million,
// which invites floods of calls that are reset at once. A hundred, the usual
// value, would be too few here: Begins that wait for another attempt's end hold
// theirs for up to 30 s, and a service may well have one connection.
inline constexpr int kConnectionStreamsMax = 1000;
// Of these, so many may be waits; a further Begin is told in_progress at once.
// The Complete that ends the waits must find room on the same connection.
inline constexpr int kConnectionWaitsMax = kConnectionStreamsMax / 2;

// Calls of one connection within one second that come to nothing by its own
// doing: reset before anything was done for them, beyond the limits of the
// connection, or of methods that are not dedupe's. Its deadlines may well pass
// by the hundred when the database stalls; a flood of resets brings tens of
// thousands. Such a peer is cut.
inline constexpr int kConnectionWastedCallsMax = 1000;
// And its address has no new connection for so long: to connect costs it
// nothing, and each time a few thousand calls get through before they are
// noticed. Short, because others may share the address.
inline constexpr absl::Duration kKeepOut = absl::Seconds(5);

// A peer that has not taken a reply for so long is not reading; its connection
// is cut. Generous: 256 KiB in 20 s is a line of 100 kbit/s.
inline constexpr absl::Duration kUnreadTimeMax = absl::Seconds(20);
// Replies that lie unread in memory, in bytes, of all and of one connection;
// beyond, large ones are refused instead. Small ones are not: their work is
// done in vain if nobody learns of it. (A checkpoint is the longest that comes
// with an attempt.) When half of the memory is used, peers get less time.
inline constexpr size_t kUnreadBytesMax = 256 * 1024 * 1024;
inline constexpr size_t kConnectionUnreadBytesMax = 32 * 1024 * 1024;
inline constexpr size_t kSmallReplyBytesMax = 8 * 1024;
static_assert(kSmallReplyBytesMax >= 2 * kCheckpointBytesMax);
inline constexpr absl::Duration kUnreadTimeMaxWhenFull = absl::Seconds(2);

// gRPC's own memory, for what it has read and not yet handed over: when it is
// used up, gRPC stops reading and turns new connections away.
inline constexpr size_t kReadBytesMax = 256 * 1024 * 1024;

// For TLS and the first settings. gRPC's default, 2 min, lets a stranger hold a
// descriptor for that long by saying nothing.
inline constexpr absl::Duration kHandshakeTimeMax = absl::Seconds(5);

// The server pings a silent peer after the first, and closes after the second:
// half-open connections end after 70 s, not after 2 h.
inline constexpr absl::Duration kKeepaliveInterval = absl::Seconds(60);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);
// Connections without a call are closed; whoever comes back connects anew.
inline constexpr absl::Duration kConnectionIdleMax = absl::Minutes(10);

// Clients may ping as often as this, to find out whether the server is still
// there; who does it more often is cut off. The client library pings each 30 s
// (client/src/client_impl.cc); gRPC's default here, 5 min, would cut it off.
inline constexpr absl::Duration kPingIntervalMin = absl::Seconds(20);
// Pings beyond that which are borne before the connection is closed.
inline constexpr int kPingStrikesMax = 2;

// HTTP/2's least, and gRPC's default: large frames would hold up small ones.
inline constexpr int kFrameBytesMax = 16 * 1024;

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_LIMITS_H_
