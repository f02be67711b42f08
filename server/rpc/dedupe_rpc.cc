#include "server/rpc/dedupe_rpc.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/authorization.h"
#include "server/rpc/codec.h"
#include "server/rpc/rpc_status.h"
#include "server/service/limits.h"
#include "server/service/reason.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

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

// Other values are refused later.
bool IsWait(std::optional<absl::Duration> wait) {
  return wait.has_value() && *wait > absl::ZeroDuration() && *wait <= kWaitMax;
}

// An error may have made one too, which is found when the records are counted.
QuotaUse::Outcome OutcomeOf(const absl::StatusOr<BeginAnswer>& answer) {
  if (!answer.ok()) return QuotaUse::Outcome::kNone;
  const auto* started = std::get_if<Started>(&answer->outcome);
  const bool is_new =
      started != nullptr && started->attempt_number == 1 && !started->resumed;
  return is_new ? QuotaUse::Outcome::kNewRecord : QuotaUse::Outcome::kNone;
}

int64_t StoredBytes(const Response& response) {
  size_t bytes = response.body.size();
  for (const Header& header : response.headers) {
    bytes += header.name.size() + header.value.size();
  }
  return static_cast<int64_t>(bytes);
}

const RecordId& IdOf(const DecodedBegin& begin) { return begin.command.id; }
template <typename Command>
const RecordId& IdOf(const Command& command) {
  return command.id;
}

// What is refused for want of rights or room, by kind.
void CountRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return Count(Metric::kCallsUnauthenticated);
    case absl::StatusCode::kPermissionDenied:
      return Count(Metric::kCallsForbidden);
    case absl::StatusCode::kResourceExhausted:
      return Count(ReasonOf(status) == Reason::kQuota ? Metric::kCallsOverQuota
                                                      : Metric::kCallsOverload);
    default:
      return;
  }
}

// One call, from its request to its end. Deletes itself.
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(const char* method, grpc::CallbackServerContext& context,
       std::atomic<int>& calls_in_flight, CallLedger& ledger)
      : method_(method),
        context_(context),
        calls_in_flight_(calls_in_flight),
        ledger_(ledger) {
    ++calls_in_flight_;
  }

  // Whether it may be heard at all; whatever it asks.
  absl::Status LetIn(const Authenticator& authenticator) {
    if (context_.IsCancelled()) {
      ledger_.Waste(context_.peer());
      return Refusal(Reason::kCancelled);
    }
    if (!ledger_.Enter(context_.peer(), entry_)) {
      return Refusal(Reason::kOverloaded);
    }
    auto caller = authenticator.Authenticate(context_);
    if (!caller.ok()) return caller.status();
    if (!IsAllowed(v1::DedupeService::service_full_name(), method_,
                   caller->principal->role)) {
      return Refusal(Reason::kMethodForbidden);
    }
    absl::Status status = caller->use->Enter(caller->principal->quota, began_);
    if (status.ok()) caller_ = *std::move(caller);
    return status;
  }

  // Once it was let in.
  const Caller& caller() const { return *caller_; }
  bool MayWait() { return ledger_.MayWait(entry_); }

  CallScope Open(SteadyTime deadline, const RecordId& id) {
    if (LogEnabled(Severity::kDebug)) key_digest_ = KeyDigest(id);
    absl::MutexLock lock(&mutex_);
    scope_.emplace(deadline);
    if (cancelled_) scope_->Cancel();
    return *scope_;
  }

  // With a message, which is taken away if it has no room. Only what changed
  // nothing is so large, a replay or a Lookup, so that the refusal is exact.
  void Answer(const absl::Status& status, grpc::ByteBuffer& message) {
    if (!status.ok()) return Answer(status);
    if (ledger_.Reply(entry_, message.Length())) return Send(status);
    message.Clear();
    Answer(Refusal(Reason::kOverloaded));
  }
  // Without one.
  void Answer(const absl::Status& status) {
    if (!entry_.empty()) ledger_.Reply(entry_, 0);
    Send(status);
  }

 private:
  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (scope_.has_value()) scope_->Cancel();
  }
  void OnDone() override {
    if (caller_.has_value()) caller_->use->Leave();
    if (!entry_.empty()) ledger_.Leave(entry_);
    delete this;
  }

  void Send(const absl::Status& status) {
    LogAnswer(status);
    CountRefusal(status);
    if (absl::IsResourceExhausted(status)) {
      // For clients whose retries gRPC does itself.
      context_.AddTrailingMetadata("grpc-retry-pushback-ms",
                                   absl::StrCat(absl::ToInt64Milliseconds(
                                       RetryDelayOf(ReasonOf(status)))));
    }
    // Not in OnDone, which may come later than the reply.
    --calls_in_flight_;
    Finish(ToRpcStatus(status));
  }

  void LogAnswer(const absl::Status& status) const {
    const bool ours = absl::IsInternal(status) || absl::IsUnknown(status);
    const Severity severity = ours ? Severity::kError : Severity::kDebug;
    if (!LogEnabled(severity)) return;
    Log(severity, "call",
        {{"method", method_},
         {"code", absl::StatusCodeToString(status.code())},
         {"reason", std::string(ReasonName(ReasonOf(status)))},
         {"principal", caller_.has_value() ? caller_->principal->name : ""},
         {"key_digest", key_digest_},
         {"duration_us",
          static_cast<int64_t>(
              std::chrono::duration_cast<std::chrono::microseconds>(
                  std::chrono::steady_clock::now() - began_)
                  .count())}});
  }

  const char* const method_;
  grpc::CallbackServerContext& context_;
  std::atomic<int>& calls_in_flight_;
  CallLedger& ledger_;
  CallLedger::Entry entry_;
  std::optional<Caller> caller_;
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
  auto* call = new Call(method, *context, calls_in_flight_, ledger_);
  absl::Status status =
      draining_ ? Refusal(Reason::kDraining) : call->LetIn(authenticator_);
  if (!status.ok()) {
    call->Answer(status);
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
  // An empty one is the caller's mistake, and found later.
  const std::string& client_id = IdOf(*command).client_id;
  if (!client_id.empty() && !MayUse(*call->caller().principal, client_id)) {
    call->Answer(Refusal(Reason::kClientIdForbidden));
    return call;
  }
  CallScope scope =
      call->Open(DeadlineOf(*context, WaitOf(*command)), IdOf(*command));
  ask(*call, *std::move(command), std::move(scope),
      [call, response](absl::StatusOr<Answer> answer) {
        const absl::Status outcome = answer.status();
        if (outcome.ok()) {
          const auto encoded = Encode(*std::move(answer));
          bool own_buffer = false;
          // Of a message that we have built ourselves: it cannot fail.
          (void)grpc::GenericSerialize<grpc::ProtoBufferWriter,
                                       std::decay_t<decltype(encoded)>>(
              encoded, response, &own_buffer);
        }
        call->Answer(outcome, *response);
      });
  return call;
}

grpc::ServerUnaryReactor* DedupeRpc::Begin(grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) {
  return Handle<v1::BeginRequest, BeginAnswer>(
      "Begin", context, request, response,
      [this](Call& call, DecodedBegin begin, CallScope scope,
             Callback<BeginAnswer> done) {
        const Caller caller = call.caller();
        DedupeService::BeginOptions options{
            .wait = begin.wait,
            .may_create = caller.use->StartBegin(caller.principal->quota)};
        if (IsWait(begin.wait) && !call.MayWait()) options.wait.reset();
        const bool is_counted = options.may_create.ok();
        service_.Begin(std::move(begin.command), std::move(options),
                       std::move(scope),
                       [use = caller.use, is_counted, done = std::move(done)](
                           absl::StatusOr<BeginAnswer> answer) mutable {
                         if (is_counted) use->FinishBegin(OutcomeOf(answer));
                         std::move(done)(std::move(answer));
                       });
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Complete(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::CompleteRequest, CompleteAnswer>(
      "Complete", context, request, response,
      [this](Call& call, CompleteCommand command, CallScope scope,
             Callback<CompleteAnswer> done) {
        const int64_t bytes = StoredBytes(command.response);
        service_.Complete(
            std::move(command), std::move(scope),
            [use = call.caller().use, bytes, done = std::move(done)](
                absl::StatusOr<CompleteAnswer> answer) mutable {
              if (answer.ok()) use->AddStoredBytes(bytes);
              std::move(done)(std::move(answer));
            });
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Extend(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::ExtendRequest, ExtendAnswer>(
      "Extend", context, request, response,
      [this](Call&, ExtendCommand command, CallScope scope,
             Callback<ExtendAnswer> done) {
        service_.Extend(std::move(command), std::move(scope), std::move(done));
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Release(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::ReleaseRequest, ReleaseAnswer>(
      "Release", context, request, response,
      [this](Call&, ReleaseCommand command, CallScope scope,
             Callback<ReleaseAnswer> done) {
        service_.Release(std::move(command), std::move(scope), std::move(done));
      });
}

grpc::ServerUnaryReactor* DedupeRpc::Lookup(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return Handle<v1::LookupRequest, LookupAnswer>(
      "Lookup", context, request, response,
      [this](Call&, LookupCommand command, CallScope scope,
             Callback<LookupAnswer> done) {
        service_.Lookup(std::move(command), std::move(scope), std::move(done));
      });
}

}  // namespace dedupe
