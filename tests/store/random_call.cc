#include "tests/store/random_call.h"

#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/support/builders.h"

namespace dedupe::testing {
namespace {

template <typename Value, size_t kCount>
Value AnyOf(Random& random, const Value (&values)[kCount]) {
  return values[Pick(random, kCount)];
}

bool OneIn(Random& random, size_t count) { return Pick(random, count) == 0; }

std::string AnyAttempt(Random& random) {
  return absl::StrCat("a", 1 + Pick(random, 4));
}

// Unset as often as not.
std::optional<absl::Duration> AnyLease(Random& random) {
  static constexpr int64_t kMs[] = {100, 1000, 2500, 60'000};
  if (OneIn(random, 3)) return std::nullopt;
  return absl::Milliseconds(AnyOf(random, kMs));
}

std::optional<absl::Duration> AnyTtl(Random& random) {
  static constexpr int64_t kMs[] = {100, 700, 5000, 3'600'000};
  if (OneIn(random, 4)) return std::nullopt;
  return absl::Milliseconds(AnyOf(random, kMs));
}

// Mostly the same request, or nothing but mismatches would be seen.
BeginCommand AnyBegin(Random& random) {
  BeginCommand command = MakeBegin("", AnyAttempt(random));
  command.lease = AnyLease(random);
  command.ttl = AnyTtl(random);
  if (OneIn(random, 5)) command.on_lease_expiry = OnLeaseExpiry::kHold;
  if (OneIn(random, 8)) command.fingerprint = FingerprintOf("two");
  if (OneIn(random, 12)) command.operation = "";
  return command;
}

CompleteCommand AnyComplete(Random& random) {
  static constexpr int32_t kCodes[] = {200, 402};
  CompleteCommand command;
  command.response.code = AnyOf(random, kCodes);
  for (size_t i = Pick(random, 3); i > 0; --i) {
    command.response.headers.push_back({"retry", absl::StrCat(i / 2)});
  }
  switch (Pick(random, 3)) {
    case 0:
      command.response.body_omitted = true;
      break;
    case 1:
      command.response.body = std::string("a\0b", 3);
      break;
    default:
      break;
  }
  return command;
}

ExtendCommand AnyExtend(Random& random) {
  ExtendCommand command;
  command.lease = AnyLease(random);
  if (OneIn(random, 2)) command.checkpoint = std::string("\0page", 5);
  if (OneIn(random, 4)) command.checkpoint = "half";
  return command;
}

Command AnyCommand(Random& random) {
  const size_t dice = Pick(random, 100);
  if (dice < 46) return AnyBegin(random);
  if (dice < 60) return AnyComplete(random);
  if (dice < 72) return AnyExtend(random);
  if (dice < 88) {
    ReleaseCommand command;
    command.forget_fingerprint = OneIn(random, 5);
    return command;
  }
  if (dice < 94) return LookupCommand{};
  return WatchCommand{};
}

Holder ChosenHolder(const RandomCall& call, const std::string& attempt_id,
                    const Holders& holders) {
  // A key that nobody has begun yet: any fence is wrong.
  Holder chosen = {attempt_id, 1};
  if (holders.empty()) return chosen;
  const size_t newest = holders.size() - 1;
  const size_t index =
      call.fence == FenceChoice::kBefore && newest > 0 ? newest - 1 : newest;
  chosen.fence = holders[index].fence;
  if (call.fence == FenceChoice::kNobodys) ++chosen.fence;
  if (call.as_holder) chosen.attempt_id = holders[index].attempt_id;
  return chosen;
}

std::string Text(const std::optional<absl::Duration>& duration) {
  return duration.has_value() ? absl::FormatDuration(*duration) : "default";
}

std::string Text(const Holder& holder) {
  return absl::StrCat(holder.attempt_id, " with fence ", holder.fence);
}

std::string Text(const BeginCommand& command) {
  return absl::StrCat(
      "Begin by ", command.attempt_id, ", fingerprint ",
      command.fingerprint.substr(0, 3), ", operation \"", command.operation,
      "\", lease ", Text(command.lease), ", ttl ", Text(command.ttl),
      command.on_lease_expiry == OnLeaseExpiry::kHold ? ", hold" : "");
}

std::string Text(const CompleteCommand& command) {
  return absl::StrCat("Complete by ", Text(command.holder), ", code ",
                      command.response.code, ", ",
                      command.response.headers.size(), " headers, body \"",
                      absl::CHexEscape(command.response.body), "\"",
                      command.response.body_omitted ? " omitted" : "");
}

std::string Text(const ExtendCommand& command) {
  return absl::StrCat("Extend by ", Text(command.holder), ", lease ",
                      Text(command.lease), ", checkpoint \"",
                      absl::CHexEscape(command.checkpoint), "\"");
}

std::string Text(const ReleaseCommand& command) {
  return absl::StrCat("Release by ", Text(command.holder),
                      command.forget_fingerprint ? ", forgetting" : "");
}

std::string Text(const LookupCommand&) { return "Lookup"; }
std::string Text(const WatchCommand&) { return "Watch"; }

}  // namespace

RandomCall MakeRandomCall(Random& random) {
  RandomCall call;
  call.command = AnyCommand(random);
  // Mostly the present holder, who gets furthest.
  if (OneIn(random, 6)) call.fence = FenceChoice::kBefore;
  if (OneIn(random, 10)) call.fence = FenceChoice::kNobodys;
  call.as_holder = !OneIn(random, 8);
  return call;
}

Command Resolve(const RandomCall& call, const RecordId& id,
                const Holders& holders) {
  Command command = call.command;
  std::visit(
      [&](auto& c) {
        c.id = id;
        if constexpr (requires { c.holder; }) {
          c.holder = ChosenHolder(call, "a1", holders);
        }
      },
      command);
  return command;
}

std::string Describe(const Command& command) {
  return std::visit([](const auto& c) { return Text(c); }, command);
}

}  // namespace dedupe::testing
