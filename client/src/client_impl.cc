#include "client/src/client_impl.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "absl/random/random.h"
#include "client/src/codec.h"
#include "client/src/token.h"

namespace dedupe::client {
namespace {

// All addresses of the target are used, but not those of servers that say that
// they cannot serve just now.
constexpr char kServiceConfig[] = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "healthCheckConfig": {"serviceName": "dedupe.v1.DedupeService"}
})";

// A dead peer is noticed after both together. The server allows pings as often
// as each 20 s (kPingIntervalMin in server/service/limits.h) and cuts off who
// sends more.
constexpr absl::Duration kKeepaliveTime = absl::Seconds(30);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

// Between attempts to connect. The least is, in gRPC 1.51, also the time that
// connecting may take.
constexpr absl::Duration kReconnectFirst = absl::Milliseconds(100);
constexpr absl::Duration kReconnectMin = absl::Seconds(1);
constexpr absl::Duration kReconnectMax = absl::Seconds(2);

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   Milliseconds(kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   Milliseconds(kReconnectFirst));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   Milliseconds(kReconnectMin));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   Milliseconds(kReconnectMax));
  // Ours know which repetition is safe, and count.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy of the environment is for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Each client has connections of its own, as its comments say.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(options.target,
                                   options.credentials
                                       ? options.credentials
                                       : grpc::InsecureChannelCredentials(),
                                   arguments);
}

// gRPC keeps a deadline of its monotonic clock as one of that clock; a
// std::chrono::system_clock one would move when the clock is set.
void SetDeadline(grpc::ClientContext& context, SteadyClock::time_point moment) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      moment - SteadyClock::now());
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_micros(left.count(), GPR_TIMESPAN)));
}

// Whether a refusal tells of earlier sendings too, which dedupe alone can do:
// by the record, or by the request, which is the same each time. Who is asking
// may have been somebody else then, such as with a token that was revoked in
// between.
bool CoversEarlierSendings(const absl::Status& refusal) {
  return !ReasonOf(refusal).empty() && !absl::IsUnauthenticated(refusal) &&
         !absl::IsPermissionDenied(refusal);
}

}  // namespace

// A renewal that is on its way.
struct Client::Impl::Renewing {
  grpc::ClientContext context;
  v1::ExtendRequest request;
  Answer<v1::ExtendResponse> answer;
};

Client::Impl::Impl(ClientOptions options)
    : options_(std::move(options)),
      stub_(v1::DedupeService::NewStub(MakeChannel(options_))) {}

Client::Impl::~Impl() {
  // First: until its thread has ended, it may begin another renewal.
  keeper_.Close();
  std::unique_lock lock(mutex_);
  for (Renewing* renewing : renewals_) renewing->context.TryCancel();
  none_left_.wait(lock, [this] { return renewals_.empty(); });
}

template <typename Request, typename Message>
Verdict Client::Impl::SendOnce(Method<Request, Message> method,
                               const Request& request,
                               SteadyClock::time_point deadline,
                               const std::stop_token& stop,
                               Answer<Message>& answer) {
  grpc::ClientContext context;
  // A connection that is being made is waited for: after a restart of the
  // server there may be none for a moment.
  context.set_wait_for_ready(true);
  SetDeadline(context, deadline);
  if (grpc::Status status = AddToken(options_.token, context); !status.ok()) {
    return Judge(status);
  }
  // Shared, because the callback may still be in it when we have its value.
  const auto promise = std::make_shared<std::promise<grpc::Status>>();
  answer.sent_at = SteadyClock::now();
  // The blocking stub would drive connections only while it blocks; gRPC's own
  // threads do it between the sendings too.
  (stub_->async()->*method)(&context, &request, &answer.message,
                            [promise](grpc::Status status) {
                              promise->set_value(std::move(status));
                            });
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  auto ended = promise->get_future();
  // gRPC 1.51's own timers wait for a time of the machine's clock: after that
  // has been set back they come late.
  const bool is_late =
      ended.wait_until(deadline) == std::future_status::timeout;
  if (is_late) context.TryCancel();
  const grpc::Status status = ended.get();
  if (is_late && status.error_code() == grpc::StatusCode::CANCELLED) {
    return Judge({grpc::StatusCode::DEADLINE_EXCEEDED, "no answer in time"});
  }
  return Judge(status);
}

template <typename Request, typename Message>
absl::StatusOr<std::variant<Answer<Message>, Unknown>> Client::Impl::Call(
    Method<Request, Message> method, const Request& request,
    absl::Duration wait, const CallOptions& options) {
  const auto end = SteadyClock::now() +
                   ToSteady(options.timeout.value_or(options_.timeout) + wait);
  absl::BitGen random;
  // What was last left open, if anything was.
  std::optional<absl::Status> open;
  Verdict verdict;
  for (int tries = 1;; ++tries) {
    Answer<Message> answer;
    const auto deadline = std::min(
        end, SteadyClock::now() + ToSteady(options_.try_timeout + wait));
    verdict = SendOnce(method, request, deadline, options.stop, answer);
    if (verdict.kind == Verdict::Kind::kAnswered) return answer;
    if (verdict.kind == Verdict::Kind::kRefused) {
      // Of this sending it is definite; an earlier one may have been carried
      // out.
      if (open.has_value() && !CoversEarlierSendings(verdict.status)) break;
      return verdict.status;
    }
    if (verdict.kind == Verdict::Kind::kOpen) open = verdict.status;
    const auto next = SteadyClock::now() +
                      ToSteady(verdict.retry_delay +
                               Jittered(options_.backoff_first,
                                        options_.backoff_max, tries, random));
    if (tries == options_.tries_max || next >= end) break;
    if (!PauseUntil(next, options.stop)) break;
  }
  if (open.has_value()) return Unknown{.status = *open};
  // Turned away each time, so nothing was done.
  return verdict.status;
}

template absl::StatusOr<std::variant<Answer<v1::BeginResponse>, Unknown>>
Client::Impl::Call(Method<v1::BeginRequest, v1::BeginResponse>,
                   const v1::BeginRequest&, absl::Duration, const CallOptions&);
template absl::StatusOr<std::variant<Answer<v1::CompleteResponse>, Unknown>>
Client::Impl::Call(Method<v1::CompleteRequest, v1::CompleteResponse>,
                   const v1::CompleteRequest&, absl::Duration,
                   const CallOptions&);
template absl::StatusOr<std::variant<Answer<v1::ExtendResponse>, Unknown>>
Client::Impl::Call(Method<v1::ExtendRequest, v1::ExtendResponse>,
                   const v1::ExtendRequest&, absl::Duration,
                   const CallOptions&);
template absl::StatusOr<std::variant<Answer<v1::ReleaseResponse>, Unknown>>
Client::Impl::Call(Method<v1::ReleaseRequest, v1::ReleaseResponse>,
                   const v1::ReleaseRequest&, absl::Duration,
                   const CallOptions&);
template absl::StatusOr<std::variant<Answer<v1::LookupResponse>, Unknown>>
Client::Impl::Call(Method<v1::LookupRequest, v1::LookupResponse>,
                   const v1::LookupRequest&, absl::Duration,
                   const CallOptions&);

namespace {

LeaseKeeper::Renewal ToRenewal(const grpc::Status& status,
                               const Answer<v1::ExtendResponse>& answer) {
  const Verdict verdict = Judge(status);
  if (verdict.kind == Verdict::Kind::kAnswered) {
    return {.kind = LeaseKeeper::Renewal::Kind::kRenewed,
            .holds_until = HoldsUntil(answer)};
  }
  if (RefusalOf(verdict.status).has_value()) {
    return {.kind = LeaseKeeper::Renewal::Kind::kLost, .holds_until = {}};
  }
  return {.kind = LeaseKeeper::Renewal::Kind::kUnanswered, .holds_until = {}};
}

}  // namespace

void Client::Impl::Renew(const v1::ExtendRequest& request,
                         SteadyClock::time_point deadline,
                         std::function<void(LeaseKeeper::Renewal)> done) {
  auto renewing = std::make_unique<Renewing>();
  renewing->request = request;
  renewing->context.set_wait_for_ready(true);
  SetDeadline(
      renewing->context,
      std::min(deadline, SteadyClock::now() + ToSteady(options_.try_timeout)));
  if (grpc::Status status = AddToken(options_.token, renewing->context);
      !status.ok()) {
    return done(ToRenewal(status, renewing->answer));
  }
  renewing->answer.sent_at = SteadyClock::now();
  Renewing* const sent = renewing.release();
  {
    std::lock_guard lock(mutex_);
    renewals_.insert(sent);
  }
  stub_->async()->Extend(
      &sent->context, &sent->request, &sent->answer.message,
      [this, sent, done = std::move(done)](const grpc::Status& status) {
        const std::unique_ptr<Renewing> owned(sent);
        done(ToRenewal(status, owned->answer));
        // Notified under the lock: afterwards *this may be gone.
        std::lock_guard lock(mutex_);
        renewals_.erase(sent);
        if (renewals_.empty()) none_left_.notify_all();
      });
}

}  // namespace dedupe::client
