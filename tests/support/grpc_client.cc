#include "tests/support/grpc_client.h"

#include <google/protobuf/any.pb.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dedupe::testing {
namespace {

void SetDeadline(grpc::ClientContext& context, absl::Duration limit) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + limit));
}

grpc::ByteBuffer ToByteBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

ErrorDetails DetailsOf(const grpc::Status& status) {
  ErrorDetails found;
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return found;
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad_request;
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&info)) {
      found.reason = info.reason();
      found.domain = info.domain();
    } else if (any.UnpackTo(&bad_request) &&
               bad_request.field_violations_size() > 0) {
      found.field = bad_request.field_violations(0).field();
    } else if (any.UnpackTo(&retry)) {
      found.retry_delay = FromProto(retry.retry_delay());
    }
  }
  return found;
}

std::string ReasonOf(const grpc::Status& status) {
  return DetailsOf(status).reason;
}

std::string Describe(const grpc::Status& status) {
  return absl::StrCat("code ", static_cast<int>(status.error_code()), " \"",
                      absl::CHexEscape(status.error_message()), "\" ",
                      absl::CHexEscape(status.error_details()));
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration message;
  absl::Duration rest;
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return message;
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

v1::BeginRequest BeginOf(const std::string& key,
                         const std::string& attempt_id) {
  v1::BeginRequest request;
  request.set_client_id("acme");
  request.set_key(key);
  request.set_operation("POST /v1/charges");
  request.set_fingerprint(std::string(32, 'f'));
  request.set_attempt_id(attempt_id);
  return request;
}

v1::CompleteRequest CompleteOf(const v1::BeginRequest& begin, int64_t fence,
                               const std::string& body) {
  v1::CompleteRequest request;
  request.set_client_id(begin.client_id());
  request.set_key(begin.key());
  request.set_attempt_id(begin.attempt_id());
  request.set_fence(fence);
  request.mutable_response()->set_code(201);
  request.mutable_response()->set_body(body);
  return request;
}

v1::ExtendRequest ExtendOf(const v1::BeginRequest& begin, int64_t fence) {
  v1::ExtendRequest request;
  request.set_client_id(begin.client_id());
  request.set_key(begin.key());
  request.set_attempt_id(begin.attempt_id());
  request.set_fence(fence);
  return request;
}

v1::ReleaseRequest ReleaseOf(const v1::BeginRequest& begin, int64_t fence) {
  v1::ReleaseRequest request;
  request.set_client_id(begin.client_id());
  request.set_key(begin.key());
  request.set_attempt_id(begin.attempt_id());
  request.set_fence(fence);
  return request;
}

v1::LookupRequest LookupOf(const v1::BeginRequest& begin) {
  v1::LookupRequest request;
  request.set_client_id(begin.client_id());
  request.set_key(begin.key());
  return request;
}

std::shared_ptr<grpc::Channel> OpenChannel(
    const std::string& address, grpc::ChannelArguments arguments,
    std::shared_ptr<grpc::ChannelCredentials> credentials) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A restarted server is found at once, as tests of restarts count the time.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // In truth how long one attempt to connect may take at least.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  // What the server answers is to be seen, not what the library makes of it.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

Client::Client(const std::string& address, Identity identity)
    : authorizations_(std::move(identity.authorizations)),
      channel_(OpenChannel(address, {}, std::move(identity.credentials))),
      stub_(v1::DedupeService::NewStub(channel_)) {}

void Client::Identify(grpc::ClientContext& context) const {
  for (const std::string& authorization : authorizations_) {
    context.AddMetadata("authorization", authorization);
  }
}

template <typename Request, typename Response>
Reply<Response> Client::Call(
    grpc::Status (v1::DedupeService::Stub::*method)(grpc::ClientContext*,
                                                    const Request&, Response*),
    const Request& request, absl::Duration limit) {
  grpc::ClientContext context;
  SetDeadline(context, limit);
  context.set_wait_for_ready(wait_for_ready_);
  Identify(context);
  Reply<Response> reply;
  reply.status = ((*stub_).*method)(&context, request, &reply.message);
  return reply;
}

BeginReply Client::Begin(const v1::BeginRequest& request,
                         absl::Duration limit) {
  return Call(&v1::DedupeService::Stub::Begin, request, limit);
}

CompleteReply Client::Complete(const v1::CompleteRequest& request,
                               absl::Duration limit) {
  return Call(&v1::DedupeService::Stub::Complete, request, limit);
}

ExtendReply Client::Extend(const v1::ExtendRequest& request,
                           absl::Duration limit) {
  return Call(&v1::DedupeService::Stub::Extend, request, limit);
}

ReleaseReply Client::Release(const v1::ReleaseRequest& request,
                             absl::Duration limit) {
  return Call(&v1::DedupeService::Stub::Release, request, limit);
}

LookupReply Client::Lookup(const v1::LookupRequest& request,
                           absl::Duration limit) {
  return Call(&v1::DedupeService::Stub::Lookup, request, limit);
}

v1::RecordState Client::StateOf(const v1::BeginRequest& begin) {
  const LookupReply reply = Lookup(LookupOf(begin));
  EXPECT_THAT(reply, IsOk());
  return reply.message.state();
}

PendingBegin::PendingBegin(Client& client, const v1::BeginRequest& request,
                           absl::Duration limit)
    : request_(request) {
  SetDeadline(context_, limit);
  client.Identify(context_);
  client.stub().async()->Begin(&context_, &request_, &reply_.message,
                               [this](grpc::Status status) {
                                 reply_.status = std::move(status);
                                 done_at_ = absl::Now();
                                 done_.Notify();
                               });
}

PendingBegin::~PendingBegin() {
  Cancel();
  done_.WaitForNotification();
}

const BeginReply& PendingBegin::reply() const {
  done_.WaitForNotification();
  return reply_;
}

absl::Time PendingBegin::done_at() const {
  done_.WaitForNotification();
  return done_at_;
}

RawReply CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& method, const std::string& bytes,
                 absl::Duration limit) {
  grpc::ClientContext context;
  SetDeadline(context, limit);
  return CallRaw(channel, method, bytes, context);
}

RawReply CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& method, const std::string& bytes,
                 grpc::ClientContext& context) {
  const grpc::ByteBuffer request = ToByteBuffer(bytes);
  grpc::ByteBuffer response;
  RawReply reply;
  absl::Notification done;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(&context, method, {}, &request, &response,
                 [&](grpc::Status status) {
                   reply.status = std::move(status);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (reply.status.ok()) reply.message = ToString(response);
  return reply;
}

std::string MethodPath(const std::string& name) {
  return "/dedupe.v1.DedupeService/" + name;
}

}  // namespace dedupe::testing
