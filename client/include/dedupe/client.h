// Calls of a dedupe server, repeated where that is right.
#ifndef DEDUPE_CLIENT_H_
#define DEDUPE_CLIENT_H_

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
#include "dedupe/outcome.h"
#include "dedupe/response.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace dedupe::client {

enum class OnLeaseExpiry {
  // The next attempt is told `started` with taken_over.
  kTakeover,
  // The next attempt is told `in_doubt`, until a person has looked.
  kHold,
};

// The fields, their bounds and defaults are those of dedupe/v1/dedupe.proto. An
// unset duration is the server's default.

struct BeginRequest {
  std::string client_id;
  std::string key;
  std::string operation = {};
  std::string fingerprint;
  // NewAttemptId(), one for each try of the work.
  std::string attempt_id;
  std::optional<absl::Duration> lease = {};
  std::optional<absl::Duration> ttl = {};
  // How long the server may wait for another attempt's end; at most 30 s.
  absl::Duration wait = absl::ZeroDuration();
  OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeover;
};

struct CompleteRequest {
  std::string client_id;
  std::string key;
  std::string attempt_id;
  int64_t fence = 0;
  Response response;
};

struct ExtendRequest {
  std::string client_id;
  std::string key;
  std::string attempt_id;
  int64_t fence = 0;
  std::optional<absl::Duration> lease = {};
  std::string checkpoint = {};
};

struct ReleaseRequest {
  std::string client_id;
  std::string key;
  std::string attempt_id;
  int64_t fence = 0;
  bool forget_fingerprint = false;
};

// Asked for a token before every sending, from any thread; must be quick. ""
// sends none. One that throws, or gives what is not 1 to 4096 visible ASCII
// bytes, fails the call with kUnauthenticated, unsent.
using TokenSource = std::function<std::string()>;

// Of a file's content without the white space around it, read anew once per
// second at most: so a token can be replaced while it is in use, if the old one
// is valid for two seconds more. A file that cannot be read, is empty or not a
// regular one leaves the token as it was; "" before there was one.
TokenSource TokenFromFile(std::string path);

struct ClientOptions {
  // As gRPC names servers: "dedupe.internal:7733" (all its addresses are used),
  // "ipv4:10.0.0.1:7733,10.0.0.2:7733", "unix:/run/dedupe/socket".
  std::string target;
  // Null: plaintext, for loopback, Unix sockets and what a proxy encrypts.
  std::shared_ptr<grpc::ChannelCredentials> credentials = {};
  // Gives what `dedupe token create` printed. Unset: none is sent, and a
  // certificate in `credentials`, if anything, tells the server who calls.
  // Without TLS everybody in between can read it.
  TokenSource token = {};
  // For one call with all its repetitions, on top of `wait`. 10 ms to 60 s.
  absl::Duration timeout = absl::Seconds(10);
  // For one sending, on top of `wait`: then the next one is tried, maybe at
  // another server. 10 ms to 60 s.
  absl::Duration try_timeout = absl::Seconds(3);
  // Sendings of one call, the first included. 1 to 100.
  int tries_max = 20;
  // Before the n-th repetition, a random time up to 2^(n-1) times the first,
  // and never above the greatest ("full jitter", so that the repetitions of
  // many clients do not come in step). 1 ms to 60 s.
  absl::Duration backoff_first = absl::Milliseconds(50);
  absl::Duration backoff_max = absl::Seconds(2);
};

struct CallOptions {
  // Instead of ClientOptions::timeout; more than zero, at most 60 s, on top of
  // `wait`.
  std::optional<absl::Duration> timeout = {};
  // When it is asked to stop, the call ends at once, as Unknown.
  std::stop_token stop = {};
};

// Thread-safe: one for the whole process, whose calls share its connections.
// Its calls block; call them from threads of your own. No member throws. After
// fork() use it in neither process unless it was made after the fork.
//
// What is repeated: a call whose answer leaves it open whether anything was
// done (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, and whatever was not said by
// dedupe itself but by something on the way), or that was turned away unheard
// (RESOURCE_EXHAUSTED with a retry_delay, which is kept to). Every repetition
// bears the same arguments, the attempt id among them, which is what makes it
// safe. When time or tries run out the outcome is Unknown.
//
// Time is counted on the steady clock: setting the machine's clock neither
// stretches nor shortens anything.
//
// Errors, from all calls. Each is definite: nothing was changed.
//   kInvalidArgument     a bound is broken; ReasonOf tells which
//   kFailedPrecondition  Begin: ATTEMPT_FINISHED; otherwise see Refused
//   kUnauthenticated     the credentials are missing, wrong or not valid any
//                        more; or the token is none (TokenSource)
//   kPermissionDenied    this principal may not make the call, or not for this
//                        client_id
//   kResourceExhausted   the server turned it away to the end, or the message
//                        is larger than 1 MiB
//   kUnimplemented       no dedupe at this address, or one that is too old
//   kInternal            the record or the server's schema is damaged
class Client {
 public:
  // Connects only when it is first called. Errors: kInvalidArgument for an
  // option out of its bounds, or a target that is empty; kResourceExhausted if
  // the system has no thread for it.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);

  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<BeginOutcome> Begin(const BeginRequest& request,
                                     const CallOptions& options = {});
  absl::StatusOr<CompleteOutcome> Complete(const CompleteRequest& request,
                                           const CallOptions& options = {});
  absl::StatusOr<ExtendOutcome> Extend(const ExtendRequest& request,
                                       const CallOptions& options = {});
  // Only right if nothing happened: the next attempt runs at once and is not
  // told to look.
  absl::StatusOr<ReleaseOutcome> Release(const ReleaseRequest& request,
                                         const CallOptions& options = {});
  // Reads and changes nothing, so there is no Unknown: no answer is
  // kUnavailable.
  absl::StatusOr<Record> Lookup(absl::string_view client_id,
                                absl::string_view key,
                                const CallOptions& options = {});

  // Private to the library.
  class Impl;

 private:
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Such as "KEY_EMPTY" or "ATTEMPT_FINISHED", the reasons of dedupe.proto; empty
// if the error has none.
std::string ReasonOf(const absl::Status& status);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_H_
