#include "dedupe/run_once.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "client/src/pause.h"
#include "client/src/running_attempt.h"
#include "dedupe/key.h"

namespace dedupe::client {
namespace {

constexpr absl::Duration kWaitMax = absl::Minutes(15);
// The server's own bound for one Begin.
constexpr absl::Duration kServerWaitMax = absl::Seconds(30);
// Somebody wants to be done: what takes longer is left to the lease.
constexpr absl::Duration kGiveBackTimeout = absl::Seconds(1);
constexpr absl::Duration kWorkLimitMin = absl::Milliseconds(1);
constexpr absl::Duration kWorkLimitMax = absl::Hours(24);

absl::Status Stopped() {
  return absl::CancelledError("asked to stop before the work began");
}

absl::Status Check(const RunOnceRequest& request, const Work& work) {
  if (!work) return absl::InvalidArgumentError("there is no work");
  if (request.wait < absl::ZeroDuration() || request.wait > kWaitMax) {
    return absl::InvalidArgumentError("wait is not between 0 and 15 min");
  }
  if (request.work_limit < kWorkLimitMin ||
      request.work_limit > kWorkLimitMax) {
    return absl::InvalidArgumentError(
        "work_limit is not between 1 ms and 24 h");
  }
  if (request.stop.stop_requested()) return Stopped();
  return absl::OkStatus();
}

// One call of RunOnce.
class Run {
 public:
  Run(Client& client, const RunOnceRequest& request)
      : client_(client), request_(request), attempt_id_(NewAttemptId()) {}

  absl::StatusOr<RunOnceOutcome> operator()(const Work& work);

 private:
  CallOptions Options() const {
    return {.timeout = request_.timeout, .stop = request_.stop};
  }
  // What settles is said to the end, also when the process is to stop.
  CallOptions SettleOptions() const {
    return {.timeout = request_.timeout, .stop = {}};
  }

  absl::StatusOr<BeginOutcome> BeginOnce(absl::Duration wait,
                                         const CallOptions& options);
  // Asks again for as long as the request would wait.
  absl::StatusOr<BeginOutcome> BeginAndWait();
  absl::StatusOr<RunOnceOutcome> Start(const Started& started,
                                       const Work& work);
  absl::StatusOr<RunOnceOutcome> Hold(const Started& started, const Work& work);
  // Whether less of the lease is left than the answer took to come.
  bool IsShort(const Started& started) const;
  WorkResult LookForTraces(RunningAttempt& attempt);
  RunOnceOutcome Store(Response response, int64_t fence, bool reconciled);
  // This attempt has changed nothing.
  void Free(int64_t fence);
  // After a Begin that was broken off: frees what it may have been granted.
  // False if that is not known.
  bool GiveBack();

  Client& client_;
  const RunOnceRequest& request_;
  const std::string attempt_id_;
  SteadyClock::time_point asked_at_;
};

absl::StatusOr<BeginOutcome> Run::BeginOnce(absl::Duration wait,
                                            const CallOptions& options) {
  asked_at_ = SteadyClock::now();
  return client_.Begin({.client_id = request_.client_id,
                        .key = request_.key,
                        .operation = request_.operation,
                        .fingerprint = request_.fingerprint,
                        .attempt_id = attempt_id_,
                        .lease = request_.lease,
                        .ttl = request_.ttl,
                        .wait = wait,
                        .on_lease_expiry = request_.on_lease_expiry},
                       options);
}

absl::StatusOr<BeginOutcome> Run::BeginAndWait() {
  const auto end = SteadyClock::now() + ToSteady(request_.wait);
  absl::BitGen random;
  while (true) {
    const absl::Duration left = std::max(
        absl::ZeroDuration(), absl::FromChrono(end - SteadyClock::now()));
    absl::StatusOr<BeginOutcome> outcome =
        BeginOnce(std::min(left, kServerWaitMax), Options());
    if (!outcome.ok()) return outcome;
    const auto* in_progress = std::get_if<InProgress>(&*outcome);
    if (in_progress == nullptr) return outcome;
    // Not before retry_after, and spread over as long again, so that many
    // callers do not come back in step.
    const auto next = SteadyClock::now() +
                      ToSteady(in_progress->retry_after +
                               Jittered(in_progress->retry_after,
                                        in_progress->retry_after, 1, random));
    if (next >= end || !PauseUntil(next, request_.stop)) return outcome;
  }
}

// What the caller is told where it is not this attempt's turn.
struct ToRunOnceOutcome {
  template <typename Outcome>
  absl::StatusOr<RunOnceOutcome> operator()(const Outcome& outcome) const {
    return RunOnceOutcome(outcome);
  }
  // Never asked: Run sees to it.
  absl::StatusOr<RunOnceOutcome> operator()(const Started&) const {
    return absl::InternalError("started");
  }
};

absl::StatusOr<RunOnceOutcome> Run::operator()(const Work& work) {
  const absl::StatusOr<BeginOutcome> begun = BeginAndWait();
  if (!begun.ok()) return begun.status();
  if (const auto* started = std::get_if<Started>(&*begun)) {
    return Start(*started, work);
  }
  if (std::holds_alternative<Unknown>(*begun) &&
      request_.stop.stop_requested() && GiveBack()) {
    return Stopped();
  }
  return std::visit(ToRunOnceOutcome(), *begun);
}

// What it says; an exception says nothing.
WorkResult Guarded(const Work& work, Attempt& attempt) {
  try {
    WorkResult result = work(attempt);
    if (auto* unknown = std::get_if<Unknown>(&result);
        unknown != nullptr && unknown->status.ok()) {
      return Unknown{absl::UnknownError("the work does not know")};
    }
    return result;
  } catch (const std::exception& e) {
    return Unknown{absl::UnknownError(absl::StrCat("exception: ", e.what()))};
  } catch (...) {
    return Unknown{absl::UnknownError("exception")};
  }
}

absl::StatusOr<RunOnceOutcome> Run::Start(const Started& started,
                                          const Work& work) {
  if (!IsShort(started)) return Hold(started, work);
  // The time that was waited for another attempt counts as if the lease had
  // been held all along. Its holder's own Begin, repeated, renews it.
  const absl::StatusOr<BeginOutcome> again =
      BeginOnce(absl::ZeroDuration(), Options());
  if (again.ok() && std::holds_alternative<Started>(*again)) {
    return Hold(std::get<Started>(*again), work);
  }
  Free(started.fence);
  if (!again.ok()) return again.status();
  return std::visit(ToRunOnceOutcome(), *again);
}

bool Run::IsShort(const Started& started) const {
  const auto now = SteadyClock::now();
  return started.holds_until - now < now - asked_at_;
}

absl::StatusOr<RunOnceOutcome> Run::Hold(const Started& started,
                                         const Work& work) {
  if (request_.stop.stop_requested()) {
    Free(started.fence);
    return Stopped();
  }
  if (started.holds_until <= SteadyClock::now()) {
    Free(started.fence);
    return absl::UnavailableError("the lease is shorter than the way");
  }
  RunningAttempt attempt(client_, request_,
                         {.client_id = request_.client_id,
                          .key = request_.key,
                          .attempt_id = attempt_id_,
                          .fence = started.fence,
                          .attempt_number = started.attempt_number,
                          .taken_over = started.taken_over,
                          .checkpoint = started.checkpoint,
                          .first_seen_at = {}},
                         started);
  if (started.taken_over) {
    WorkResult traces = LookForTraces(attempt);
    if (auto* done = std::get_if<Done>(&traces)) {
      return Store(std::move(done->response), started.fence, true);
    }
    if (auto* unknown = std::get_if<Unknown>(&traces)) {
      // The next attempt is still told that it takes over, and looks again.
      Free(started.fence);
      return std::move(*unknown);
    }
    // To look may have taken longer than the lease.
    if (attempt.stop_token().stop_requested()) {
      Free(started.fence);
      return Unknown{absl::UnavailableError("the lease may have lapsed")};
    }
  }
  WorkResult result = Guarded(work, attempt);
  if (auto* done = std::get_if<Done>(&result)) {
    return Store(std::move(done->response), started.fence, false);
  }
  if (auto* nothing = std::get_if<NothingHappened>(&result)) {
    Free(started.fence);
    return Freed{.answer = std::move(nothing->answer)};
  }
  return std::get<Unknown>(std::move(result));
}

WorkResult Run::LookForTraces(RunningAttempt& attempt) {
  const absl::StatusOr<Record> record =
      client_.Lookup(request_.client_id, request_.key, Options());
  if (!record.ok()) return Unknown{record.status()};
  // A fence is no older than its record: a younger one is another's, who has
  // begun the key anew after this one's had expired.
  if (!record->created_at.has_value() ||
      absl::ToUnixMicros(*record->created_at) > attempt.info().fence) {
    return Unknown{absl::FailedPreconditionError("the record is gone")};
  }
  attempt.set_first_seen_at(*record->created_at);
  if (!request_.reconcile) return NothingHappened{};
  return Guarded(request_.reconcile, attempt);
}

// What Complete came to, as what RunOnce came to.
struct ToStored {
  RunOnceOutcome operator()(const Completed& completed) {
    return Ran{.response = std::move(response),
               .completed_at = completed.completed_at,
               .expires_at = completed.expires_at,
               .reconciled = reconciled};
  }
  RunOnceOutcome operator()(const Refused&) {
    return NotRecorded{
        .response = std::move(response),
        .status = absl::FailedPreconditionError("the lease was lost")};
  }
  RunOnceOutcome operator()(const Unknown& unknown) {
    return NotRecorded{.response = std::move(response),
                       .status = unknown.status};
  }

  Response response;
  bool reconciled;
};

RunOnceOutcome Run::Store(Response response, int64_t fence, bool reconciled) {
  CompleteRequest request{.client_id = request_.client_id,
                          .key = request_.key,
                          .attempt_id = attempt_id_,
                          .fence = fence,
                          .response = response};
  if (request.response.body.size() > kBodyBytesMax) {
    request.response.body.clear();
    request.response.body_omitted = true;
  }
  absl::StatusOr<CompleteOutcome> outcome =
      client_.Complete(request, SettleOptions());
  if (absl::IsInvalidArgument(outcome.status())) {
    // A header that the server does not keep. Better without what breaks its
    // bounds than a key whose work is done and would be begun again.
    request.response = {.code = response.code, .body_omitted = true};
    outcome = client_.Complete(request, SettleOptions());
  }
  if (!outcome.ok()) {
    return NotRecorded{.response = std::move(response),
                       .status = outcome.status()};
  }
  return std::visit(ToStored{std::move(response), reconciled}, *outcome);
}

bool Run::GiveBack() {
  const absl::StatusOr<BeginOutcome> begun =
      BeginOnce(absl::ZeroDuration(), {.timeout = kGiveBackTimeout});
  if (!begun.ok() || std::holds_alternative<Unknown>(*begun)) return false;
  if (const auto* started = std::get_if<Started>(&*begun)) {
    Free(started->fence);
  }
  return true;
}

void Run::Free(int64_t fence) {
  // If it is not heard of, the lease lapses.
  client_
      .Release({.client_id = request_.client_id,
                .key = request_.key,
                .attempt_id = attempt_id_,
                .fence = fence},
               SettleOptions())
      .IgnoreError();
}

}  // namespace

absl::StatusOr<RunOnceOutcome> RunOnce(Client& client,
                                       const RunOnceRequest& request,
                                       const Work& work) {
  if (absl::Status status = Check(request, work); !status.ok()) return status;
  return Run(client, request)(work);
}

}  // namespace dedupe::client
