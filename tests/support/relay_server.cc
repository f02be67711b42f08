#include "tests/support/relay_server.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "dedupe/v1/dedupe.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/support/grpc_client.h"

namespace dedupe::testing {

class RelayServer::Service : public v1::DedupeService::Service {
 public:
  explicit Service(const std::string& upstream)
      : stub_(v1::DedupeService::NewStub(grpc::CreateChannel(
            upstream, grpc::InsecureChannelCredentials()))) {}

  grpc::Status Begin(grpc::ServerContext* context,
                     const v1::BeginRequest* request,
                     v1::BeginResponse* response) override {
    return Relay("Begin", &v1::DedupeService::Stub::Begin, *context, *request,
                 request->attempt_id(), *response);
  }
  grpc::Status Complete(grpc::ServerContext* context,
                        const v1::CompleteRequest* request,
                        v1::CompleteResponse* response) override {
    return Relay("Complete", &v1::DedupeService::Stub::Complete, *context,
                 *request, request->attempt_id(), *response);
  }
  grpc::Status Extend(grpc::ServerContext* context,
                      const v1::ExtendRequest* request,
                      v1::ExtendResponse* response) override {
    return Relay("Extend", &v1::DedupeService::Stub::Extend, *context, *request,
                 request->attempt_id(), *response);
  }
  grpc::Status Release(grpc::ServerContext* context,
                       const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override {
    return Relay("Release", &v1::DedupeService::Stub::Release, *context,
                 *request, request->attempt_id(), *response);
  }
  grpc::Status Lookup(grpc::ServerContext* context,
                      const v1::LookupRequest* request,
                      v1::LookupResponse* response) override {
    return Relay("Lookup", &v1::DedupeService::Stub::Lookup, *context, *request,
                 "", *response);
  }

  void Set(Decide decide) {
    absl::MutexLock lock(&mutex_);
    decide_ = std::move(decide);
    counts_.clear();
  }

  std::vector<Seen> seen() const {
    absl::MutexLock lock(&mutex_);
    return seen_;
  }

  // Ends all delays.
  void Close() { closing_.Notify(); }

 private:
  template <typename Request, typename Response>
  grpc::Status Relay(const std::string& method,
                     grpc::Status (v1::DedupeService::Stub::*forward)(
                         grpc::ClientContext*, const Request&, Response*),
                     const grpc::ServerContext& context, const Request& request,
                     const std::string& attempt_id, Response& response) {
    const Fate fate = Note({.method = method,
                            .request = request.SerializeAsString(),
                            .attempt_id = attempt_id,
                            .arrived_at = std::chrono::steady_clock::now()});
    if (fate.instead_of_call.has_value()) return *fate.instead_of_call;
    closing_.WaitForNotificationWithTimeout(fate.delay_of_call);
    grpc::ClientContext onward;
    onward.set_deadline(context.deadline());
    const grpc::Status status =
        (stub_.get()->*forward)(&onward, request, &response);
    if (fate.change_answer) fate.change_answer(response);
    closing_.WaitForNotificationWithTimeout(fate.delay_of_answer);
    return fate.instead_of_answer.value_or(status);
  }

  Fate Note(Seen seen) {
    absl::MutexLock lock(&mutex_);
    const int n = ++counts_[seen.method];
    const std::string method = seen.method;
    seen_.push_back(std::move(seen));
    return decide_ ? decide_(method, n) : Fate();
  }

  const std::unique_ptr<v1::DedupeService::Stub> stub_;
  absl::Notification closing_;
  mutable absl::Mutex mutex_;
  Decide decide_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<Seen> seen_ ABSL_GUARDED_BY(mutex_);
};

RelayServer::RelayServer(const std::string& upstream,
                         absl::Duration connection_age_max)
    : service_(std::make_unique<Service>(upstream)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(service_.get());
  if (connection_age_max != absl::InfiniteDuration()) {
    builder.AddChannelArgument(
        GRPC_ARG_MAX_CONNECTION_AGE_MS,
        static_cast<int>(absl::ToInt64Milliseconds(connection_age_max)));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 5000);
  }
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

RelayServer::~RelayServer() {
  service_->Close();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

const std::string& RelayServer::address() const { return address_; }

void RelayServer::Set(Decide decide) { service_->Set(std::move(decide)); }

std::vector<RelayServer::Seen> RelayServer::seen() const {
  return service_->seen();
}

std::vector<RelayServer::Seen> RelayServer::seen(
    const std::string& method) const {
  std::vector<Seen> found;
  for (Seen& seen : service_->seen()) {
    if (seen.method == method) found.push_back(std::move(seen));
  }
  return found;
}

grpc::Status DedupeError(grpc::StatusCode code, const std::string& reason,
                         std::optional<absl::Duration> retry_delay) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("dedupe");
  google::rpc::Status details;
  details.set_code(code);
  details.add_details()->PackFrom(info);
  if (retry_delay.has_value()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = ToProto(*retry_delay);
    details.add_details()->PackFrom(retry);
  }
  return {code, "refused", details.SerializeAsString()};
}

}  // namespace dedupe::testing
