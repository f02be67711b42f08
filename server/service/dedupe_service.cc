#include "server/service/dedupe_service.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "server/service/reason.h"
#include "server/service/validation.h"

namespace dedupe {
namespace {

// A wait ends so much before the deadline, so that its last look can still be
// answered.
constexpr std::chrono::milliseconds kWaitMargin(150);

}  // namespace

// A Begin that may be asked more than once.
struct DedupeService::WaitingBegin {
  BeginCommand command;
  SteadyTime until;
  CallScope scope;
  Callback<BeginAnswer> done;
};

DedupeService::DedupeService(Store& store, size_t waiters_max)
    : store_(store), waiters_(store, waiters_max) {}

void DedupeService::Begin(BeginCommand command, BeginOptions options,
                          CallScope scope, Callback<BeginAnswer> done) {
  absl::Status status = Validate(command);
  if (status.ok()) status = ValidateWait(options.wait);
  if (!status.ok()) return std::move(done)(std::move(status));
  if (options.may_create.ok()) {
    return BeginOrWait(std::move(command), options.wait, std::move(scope),
                       std::move(done));
  }
  // Whether there is a record is asked first. It may go meanwhile, and be made
  // anew: a quota is not that exact.
  WatchCommand watch{command.id};
  store_.Watch(
      std::move(watch), scope,
      [this, command = std::move(command), options = std::move(options), scope,
       done = std::move(done)](absl::StatusOr<LookupAnswer> answer) mutable {
        if (!answer.ok()) return std::move(done)(answer.status());
        if (answer->state == RecordState::kAbsent) {
          return std::move(done)(std::move(options.may_create));
        }
        BeginOrWait(std::move(command), options.wait, std::move(scope),
                    std::move(done));
      });
}

void DedupeService::BeginOrWait(BeginCommand command,
                                std::optional<absl::Duration> wait,
                                CallScope scope, Callback<BeginAnswer> done) {
  if (!wait.has_value()) {
    return store_.Begin(std::move(command), std::move(scope), std::move(done));
  }
  const SteadyTime until = std::min<SteadyTime>(
      scope.deadline() - kWaitMargin,
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(*wait));
  Ask(std::make_shared<WaitingBegin>(WaitingBegin{
          std::move(command), until, std::move(scope), std::move(done)}),
      Waiters::Place::kLast);
}

void DedupeService::Ask(const std::shared_ptr<WaitingBegin>& call,
                        Waiters::Place place) {
  store_.Begin(
      call->command, call->scope,
      [this, call, place](absl::StatusOr<BeginAnswer> answer) {
        const bool worth_waiting =
            answer.ok() &&
            std::holds_alternative<InProgress>(answer->outcome) &&
            std::chrono::steady_clock::now() < call->until;
        if (worth_waiting &&
            waiters_.Add(call->command.id, call->until, call->scope, place,
                         [this, call] { Ask(call, Waiters::Place::kFirst); })) {
          return;
        }
        std::move(call->done)(std::move(answer));
      });
}

void DedupeService::Complete(CompleteCommand command, CallScope scope,
                             Callback<CompleteAnswer> done) {
  if (absl::Status status = Validate(command); !status.ok()) {
    return std::move(done)(std::move(status));
  }
  RecordId id = command.id;
  store_.Complete(std::move(command), std::move(scope),
                  [this, id = std::move(id), done = std::move(done)](
                      absl::StatusOr<CompleteAnswer> answer) mutable {
                    const bool completed = answer.ok();
                    std::move(done)(std::move(answer));
                    if (completed) waiters_.WakeAll(id);
                  });
}

void DedupeService::Extend(ExtendCommand command, CallScope scope,
                           Callback<ExtendAnswer> done) {
  if (absl::Status status = Validate(command); !status.ok()) {
    return std::move(done)(std::move(status));
  }
  store_.Extend(std::move(command), std::move(scope), std::move(done));
}

void DedupeService::Release(ReleaseCommand command, CallScope scope,
                            Callback<ReleaseAnswer> done) {
  if (absl::Status status = Validate(command); !status.ok()) {
    return std::move(done)(std::move(status));
  }
  RecordId id = command.id;
  store_.Release(std::move(command), std::move(scope),
                 [this, id = std::move(id), done = std::move(done)](
                     absl::StatusOr<ReleaseAnswer> answer) mutable {
                   const bool released = answer.ok();
                   std::move(done)(std::move(answer));
                   if (released) waiters_.WakeOne(id);
                 });
}

void DedupeService::Lookup(LookupCommand command, CallScope scope,
                           Callback<LookupAnswer> done) {
  if (absl::Status status = Validate(command); !status.ok()) {
    return std::move(done)(std::move(status));
  }
  store_.Lookup(std::move(command), std::move(scope), std::move(done));
}

}  // namespace dedupe
