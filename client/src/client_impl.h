// The inside of Client: the channel, the sending of calls, the keeping of
// leases.
#ifndef DEDUPE_CLIENT_SRC_CLIENT_IMPL_H_
#define DEDUPE_CLIENT_SRC_CLIENT_IMPL_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/src/lease_keeper.h"
#include "client/src/pause.h"
#include "client/src/verdict.h"
#include "dedupe/client.h"
#include "dedupe/v1/dedupe.grpc.pb.h"

namespace dedupe::client {

// An answer, and when the request was sent that it answers.
template <typename Message>
struct Answer {
  Message message;
  SteadyClock::time_point sent_at;
};

class Client::Impl {
 public:
  using Stub = v1::DedupeService::StubInterface::async_interface;
  template <typename Request, typename Message>
  using Method = void (Stub::*)(grpc::ClientContext*, const Request*, Message*,
                                std::function<void(grpc::Status)>);

  explicit Impl(ClientOptions options);
  // Ends the renewals that are on their way.
  ~Impl();

  // Sends it as often as that is right. Errors are definite. Defined for the
  // five calls of the service.
  template <typename Request, typename Message>
  absl::StatusOr<std::variant<Answer<Message>, Unknown>> Call(
      Method<Request, Message> method, const Request& request,
      absl::Duration wait, const CallOptions& options);

  // Sends it once, for LeaseKeeper.
  void Renew(const v1::ExtendRequest& request, SteadyClock::time_point deadline,
             std::function<void(LeaseKeeper::Renewal)> done);

  LeaseKeeper& keeper() { return keeper_; }

  // What RunOnce may see of a client.
  static Impl& Of(Client& client) { return *client.impl_; }

 private:
  struct Renewing;

  template <typename Request, typename Message>
  Verdict SendOnce(Method<Request, Message> method, const Request& request,
                   SteadyClock::time_point deadline,
                   const std::stop_token& stop, Answer<Message>& answer);

  const ClientOptions options_;
  const std::unique_ptr<v1::DedupeService::Stub> stub_;

  std::mutex mutex_;
  // Renewals on their way. Guarded by mutex_.
  std::set<Renewing*> renewals_;
  std::condition_variable none_left_;

  // Last: its thread uses the rest.
  LeaseKeeper keeper_;
};

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_CLIENT_IMPL_H_
