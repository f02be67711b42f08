#include "server/rpc/dedupe_rpc.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/codec.h"
#include "server/rpc/rpc_status.h"
#include "server/service/limits.h"
#include "server/service/reason.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

// The call's own deadline, counted from now on the clock that is never set; the
// server's if it has none; never longer than the longest.
SteadyTime DeadlineOf(const grpc::CallbackServerContext& context,
                      std::optional<absl::Duration> wait) {
  const SteadyTime now = std::chrono::steady_clock::now();
  absl::Duration left = kDeadlineDefault + wait.value_or(absl::ZeroDuration());
  if (context.deadline() != std::chrono::system_clock::time_point::max()) {
    left =
        absl::FromChrono(context.deadline() - std::chrono::system_clock::now());
  }
  return now + absl::ToChronoNanoseconds(std::min(left, kDeadlineMax));
}

std::optional<absl::Duration> WaitOf(const DecodedBegin& begin) {
  // Out of bounds it is refused later, and must not overflow here.
  return begin.wait.has_value()
             ? std::optional(
                   std::clamp(*begin.wait, absl::ZeroDuration(), kWaitMax))
             : std::nullopt;
}
template <typename Command>
std::optional<absl::Duration> WaitOf(const Command&) {
  return std::nullopt;
}

const RecordId& IdOf(const DecodedBegin& begin) { return begin.command.id; }
template <typename Command>
const RecordId& IdOf(const Command& command) {
  return command.id;
}

// One call, from its request to its end. Deletes itself.
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(const char* method, std::atomic<int>& calls_in_flight)
      : method_(method), calls_in_flight_(calls_in_flight) {
    ++calls_in_flight_;
  }

  CallScope Open(SteadyTime deadline, const RecordId& id) {
    if (LogEnabled(Severity::kDebug)) key_digest_ = KeyDigest(id);
    absl::MutexLock lock(&mutex_);
    scope_.emplace(deadline);
    if (cancelled_) scope_->Cancel();
    return *scope_;
  }

  void Answer(const absl::Status& status) {
    LogAnswer(status);
    // Not in OnDone, which may come later than the reply.
    --calls_in_flight_;
    Finish(ToRpcStatus(status));
  }

 private:
  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (scope_.has_value()) scope_->Cancel();
  }
  void OnDone() override { delete this; }

  void LogAnswer(const absl::Status& status) const {
    const bool ours = absl::IsInternal(status) || absl::IsUnknown(status);
    const Severity severity = ours ? Severity::kError : Severity::kDebug;
    if (!LogEnabled(severity)) return;
    Log(severity, "call",
        {{"method", method_},
         {"code", absl::StatusCodeToString(status.code())},
         {"reason", std::string(ReasonName(ReasonOf(status)))},
         {"key_digest", key_digest_},
         {"duration_us",
          static_cast<int64_t>(
              std::chrono::duration_cast<std::chrono::microseconds>(
                  std::chrono::steady_clock::now() - began_)
                  .count())}});
  }

  const char* const method_;
  std::atomic<int>& calls_in_flight_;
  const SteadyTime began_ = std::chrono::steady_clock::now();
  std::string key_digest_;
  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Until the request has been read there is none.
  std::optional<CallScope> scope_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

template <typename Request, typename Answer, typename Ask>
grpc::ServerUnaryReactor* DedupeRpc::Handle(
    const char* method, grpc::CallbackServerContext* context,
    const grpc::ByteBuffer* request, grpc::ByteBuffer* response, Ask ask) {
  auto* call = new Call(method, calls_in_flight_);
  if (draining_) {
    call->Answer(Refusal(Reason::kDraining));
    return call;
  }
  Request message;
  // Deserialize empties its argument, which gRPC owns and we may only read.
  grpc::ByteBuffer bytes = *request;
  if (!grpc::SerializationTraits<Request>::Deserialize(&bytes, &message).ok()) {
    call->Answer(Refusal(Reason::kMessageMalformed));
    return call;
  }
  auto command = Decode(std::move(message));
  if (!command.ok()) {
    call->Answer(command.status());
    return call;
  }
  CallScope scope =
      call->Open(DeadlineOf(*context, WaitOf(*command)), IdOf(*command));
  ask(*std::move(command), std::move(scope),
      [call, response](absl::StatusOr<Answer> answer) {
        const absl::Status status = answer.status();
        if (status.ok()) {
          const auto encoded = Encode(*std::move(answer));
          bool own_buffer = false;
          // Of a message that we have built ourselves: it cannot fail.
          (void)grpc::GenericSerialize<grpc::ProtoBufferWriter,
                                       std::decay_t<decltype(encoded)>>(
              encoded, response, &own_buffer);
        }
        call->Answer(status);
      });
  return call;
}

grpc::ServerUnaryReactor* DedupeRpc::Begin(grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) {
  return Handle<v1::BeginRequest, BeginAnswer>(
      "Begin", context, request, response,
      [this](DecodedBegin begin, CallScope scope, Callback<BeginAnswer> done) {
        service_.Begin(std::move(begin.command), begin.wait, std::move(scope),
                       std::move(done));
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Complete(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::CompleteRequest, CompleteAnswer>(
      "Complete", context, request, response,
      [this](CompleteCommand command, CallScope scope,
             Callback<CompleteAnswer> done) {
        service_.Complete(std::move(command), std::move(scope),
                          std::move(done));
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Extend(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::ExtendRequest, ExtendAnswer>(
      "Extend", context, request, response,
      [this](ExtendCommand command, CallScope scope,
             Callback<ExtendAnswer> done) {
        service_.Extend(std::move(command), std::move(scope), std::move(done));
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Release(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::ReleaseRequest, ReleaseAnswer>(
      "Release", context, request, response,
      [this](ReleaseCommand command, CallScope scope,
             Callback<ReleaseAnswer> done) {
        service_.Release(std::move(command), std::move(scope), std::move(done));
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Lookup(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::LookupRequest, LookupAnswer>(
      "Lookup", context, request, response,
      [this](LookupCommand command, CallScope scope,
             Callback<LookupAnswer> done) {
        service_.Lookup(std::move(command), std::move(scope), std::move(done));
      });
}

}  // namespace dedupe
