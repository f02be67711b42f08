#include "client/src/running_attempt.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "client/src/client_impl.h"
#include "client/src/codec.h"
#include "client/src/pause.h"

namespace dedupe::client {

RunningAttempt::RunningAttempt(Client& client, const RunOnceRequest& request,
                               AttemptInfo info, const Started& started)
    : client_(client),
      request_(request),
      info_(std::move(info)),
      pass_on_(request.stop, [this] { stop_.request_stop(); }),
      kept_(Client::Impl::Of(client).keeper().Keep(Terms(started))) {}

absl::Duration RunningAttempt::lease_left() const {
  return std::max(absl::ZeroDuration(),
                  absl::FromChrono(kept_->holds_until() - SteadyClock::now()));
}

absl::Status RunningAttempt::SaveCheckpoint(absl::string_view checkpoint) {
  if (checkpoint.empty()) {
    return absl::InvalidArgumentError("the checkpoint is empty");
  }
  const absl::StatusOr<ExtendOutcome> outcome = client_.Extend(
      {.client_id = info_.client_id,
       .key = info_.key,
       .attempt_id = info_.attempt_id,
       .fence = info_.fence,
       .lease = request_.lease,
       .checkpoint = std::string(checkpoint)},
      // Also after the work was asked to stop: then it is wanted most.
      {.timeout = request_.timeout});
  if (!outcome.ok()) return outcome.status();
  if (const auto* extended = std::get_if<Extended>(&*outcome)) {
    kept_->Renewed(extended->holds_until);
    return absl::OkStatus();
  }
  if (const auto* unknown = std::get_if<Unknown>(&*outcome)) {
    return absl::UnavailableError(unknown->status.message());
  }
  kept_->Lost();
  return absl::FailedPreconditionError("the lease is lost");
}

LeaseKeeper::Terms RunningAttempt::Terms(const Started& started) {
  const auto now = SteadyClock::now();
  const v1::ExtendRequest extend =
      ToProto(ExtendRequest{.client_id = info_.client_id,
                            .key = info_.key,
                            .attempt_id = info_.attempt_id,
                            .fence = info_.fence,
                            .lease = request_.lease,
                            .checkpoint = {}});
  return {.holds_until = started.holds_until,
          .lease = request_.lease.value_or(
              absl::FromChrono(started.holds_until - now)),
          .limit = now + ToSteady(request_.work_limit),
          .renew =
              [&impl = Client::Impl::Of(client_), extend](
                  SteadyClock::time_point deadline, auto done) {
                impl.Renew(extend, deadline, std::move(done));
              },
          .stop = stop_};
}

}  // namespace dedupe::client
