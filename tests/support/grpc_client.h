// A client of one server for tests: blocking calls, calls in flight, raw bytes,
// and matchers for what comes back.
#ifndef DEDUPE_TESTS_SUPPORT_GRPC_CLIENT_H_
#define DEDUPE_TESTS_SUPPORT_GRPC_CLIENT_H_

#include <gmock/gmock.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "dedupe/v1/dedupe.grpc.pb.h"

namespace dedupe::testing {

// What became of a call. The message counts only if the status is OK.
template <typename Message>
struct Reply {
  using Body = Message;

  grpc::Status status;
  Message message;
};

using BeginReply = Reply<v1::BeginResponse>;
using CompleteReply = Reply<v1::CompleteResponse>;
using ExtendReply = Reply<v1::ExtendResponse>;
using ReleaseReply = Reply<v1::ReleaseResponse>;
using LookupReply = Reply<v1::LookupResponse>;

// What the details of an error say; empty where they say nothing.
struct ErrorDetails {
  std::string reason;
  std::string domain;
  std::string field;
  absl::Duration retry_delay;
};
ErrorDetails DetailsOf(const grpc::Status& status);

// Such as "LEASE_LOST"; empty for OK and for errors without details.
std::string ReasonOf(const grpc::Status& status);

// For messages of failed tests and for searching: code, text and details.
std::string Describe(const grpc::Status& status);

google::protobuf::Duration ToProto(absl::Duration duration);
absl::Duration FromProto(const google::protobuf::Duration& duration);
absl::Time FromProto(const google::protobuf::Timestamp& time);

// A valid Begin of client acme; tests change what they are about.
v1::BeginRequest BeginOf(const std::string& key, const std::string& attempt_id);
// What the holder of `begin` sends next.
v1::CompleteRequest CompleteOf(const v1::BeginRequest& begin, int64_t fence,
                               const std::string& body);
v1::ExtendRequest ExtendOf(const v1::BeginRequest& begin, int64_t fence);
v1::ReleaseRequest ReleaseOf(const v1::BeginRequest& begin, int64_t fence);
v1::LookupRequest LookupOf(const v1::BeginRequest& begin);

// A connection of its own, which no other channel of this process shares.
std::shared_ptr<grpc::Channel> OpenChannel(
    const std::string& address, grpc::ChannelArguments arguments = {},
    std::shared_ptr<grpc::ChannelCredentials> credentials =
        grpc::InsecureChannelCredentials());

// How a client shows who it is.
struct Identity {
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      grpc::InsecureChannelCredentials();
  // Each goes into an `authorization` header of its own.
  std::vector<std::string> authorizations = {};

  static Identity OfToken(const std::string& token) {
    Identity identity;
    identity.authorizations = {"Bearer " + token};
    return identity;
  }
};

// Thread-safe. Each call brings a deadline.
class Client {
 public:
  static constexpr absl::Duration kLimit = absl::Seconds(10);

  explicit Client(const std::string& address, Identity identity = {});

  BeginReply Begin(const v1::BeginRequest& request,
                   absl::Duration limit = kLimit);
  CompleteReply Complete(const v1::CompleteRequest& request,
                         absl::Duration limit = kLimit);
  ExtendReply Extend(const v1::ExtendRequest& request,
                     absl::Duration limit = kLimit);
  ReleaseReply Release(const v1::ReleaseRequest& request,
                       absl::Duration limit = kLimit);
  LookupReply Lookup(const v1::LookupRequest& request,
                     absl::Duration limit = kLimit);
  // From now on a call waits for a connection, within its limit, instead of
  // failing at once. Blocking calls that fail at once leave nobody to look
  // after the connecting socket, which then takes up to five seconds.
  void WaitForConnection() { wait_for_ready_ = true; }
  // The state alone, of a call that must succeed.
  v1::RecordState StateOf(const v1::BeginRequest& begin);

  // For calls that are made with the stub.
  void Identify(grpc::ClientContext& context) const;
  v1::DedupeService::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  template <typename Request, typename Response>
  Reply<Response> Call(grpc::Status (v1::DedupeService::Stub::*method)(
                           grpc::ClientContext*, const Request&, Response*),
                       const Request& request, absl::Duration limit);

  const std::vector<std::string> authorizations_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::DedupeService::Stub> stub_;
  std::atomic<bool> wait_for_ready_{false};
};

// A Begin on its way.
class PendingBegin {
 public:
  // Sent at once.
  PendingBegin(Client& client, const v1::BeginRequest& request,
               absl::Duration limit = Client::kLimit);
  // Cancels it if it is not done.
  ~PendingBegin();
  PendingBegin(const PendingBegin&) = delete;
  PendingBegin& operator=(const PendingBegin&) = delete;

  void Cancel() { context_.TryCancel(); }
  bool done() const { return done_.HasBeenNotified(); }
  // False if it is not done after that time.
  bool WaitFor(absl::Duration limit) const {
    return done_.WaitForNotificationWithTimeout(limit);
  }
  // Waits for it.
  const BeginReply& reply() const;
  // When the reply came.
  absl::Time done_at() const;

 private:
  grpc::ClientContext context_;
  const v1::BeginRequest request_;
  BeginReply reply_;
  absl::Time done_at_;
  absl::Notification done_;
};

// A call as bytes, for what the stubs would not send.
using RawReply = Reply<std::string>;
RawReply CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& method, const std::string& bytes,
                 absl::Duration limit = Client::kLimit);
// The same with a context made by the caller, deadline included.
RawReply CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& method, const std::string& bytes,
                 grpc::ClientContext& context);

// "/dedupe.v1.DedupeService/" + name.
std::string MethodPath(const std::string& name);

inline std::string DescribeMessage(const google::protobuf::Message& message) {
  return message.ShortDebugString();
}
inline std::string DescribeMessage(const std::string& bytes) { return bytes; }

template <typename Message>
void PrintTo(const Reply<Message>& reply, std::ostream* out) {
  *out << Describe(reply.status);
  if (reply.status.ok()) *out << " " << DescribeMessage(reply.message);
}

MATCHER(IsOk, "") { return arg.status.ok(); }
MATCHER(IsStarted, "") { return arg.status.ok() && arg.message.has_started(); }
MATCHER(IsInProgress, "") {
  return arg.status.ok() && arg.message.has_in_progress();
}
MATCHER(IsMismatch, "") {
  return arg.status.ok() && arg.message.has_mismatch();
}
MATCHER(IsInDoubt, "") { return arg.status.ok() && arg.message.has_in_doubt(); }
MATCHER_P(IsReplayOf, body, "") {
  return arg.status.ok() && arg.message.has_replay() &&
         arg.message.replay().response().body() == body;
}
// With this code and, in the details, this reason ("" for none).
MATCHER_P2(IsRefused, code, reason, "") {
  return arg.status.error_code() == code && ReasonOf(arg.status) == reason;
}

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_GRPC_CLIENT_H_
