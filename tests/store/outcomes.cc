#include "tests/store/outcomes.h"

#include <cstdint>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace dedupe {
namespace {

// Short enough to be read in a history, exact enough to be compared.
std::string Text(absl::Time time) {
  const int64_t us = absl::ToUnixMicros(time);
  return absl::StrCat(us / 1000000, ".",
                      absl::Dec(us % 1000000, absl::kZeroPad6));
}

std::string Text(const std::optional<absl::Time>& time) {
  return time.has_value() ? Text(*time) : "none";
}

std::string Text(const Response& response) {
  std::string text = absl::StrCat("{code ", response.code);
  for (const Header& header : response.headers) {
    absl::StrAppend(&text, ", ", absl::CHexEscape(header.name), ": ",
                    absl::CHexEscape(header.value));
  }
  constexpr size_t kShown = 40;
  absl::StrAppend(&text, ", ", response.body.size(), " bytes \"",
                  absl::CHexEscape(response.body.substr(0, kShown)), "\"",
                  response.body_omitted ? ", body omitted}" : "}");
  return text;
}

std::string Text(const Started& started) {
  return absl::StrCat(
      "started, fence ", started.fence, ", attempt number ",
      started.attempt_number, ", lease to ", Text(started.lease_expires_at),
      started.resumed ? ", resumed" : "",
      started.taken_over ? ", taken over" : "", ", checkpoint \"",
      absl::CHexEscape(started.checkpoint), "\"");
}

std::string Text(const Replay& replay) {
  return absl::StrCat("replay of ", Text(replay.response), ", completed at ",
                      Text(replay.completed_at), ", kept to ",
                      Text(replay.expires_at));
}

std::string Text(const InProgress& in_progress) {
  return absl::StrCat("in progress since ", Text(in_progress.started_at),
                      ", lease to ", Text(in_progress.lease_expires_at));
}

std::string Text(const Mismatch& mismatch) {
  return absl::StrCat("mismatch, first seen at ", Text(mismatch.first_seen_at));
}

std::string Text(const InDoubt& in_doubt) {
  return absl::StrCat("in doubt since ", Text(in_doubt.since),
                      ", attempt number ", in_doubt.attempt_number);
}

std::string At(absl::Time decided_at) {
  return absl::StrCat(" (at ", Text(decided_at), ")");
}

std::string Text(RecordState state) {
  switch (state) {
    case RecordState::kAbsent:
      return "absent";
    case RecordState::kInProgress:
      return "in progress";
    case RecordState::kReleased:
      return "released";
    case RecordState::kInDoubt:
      return "in doubt";
    case RecordState::kCompleted:
      return "completed";
  }
  return "unknown";
}

}  // namespace

std::string Describe(const BeginAnswer& answer) {
  return std::visit([](const auto& outcome) { return Text(outcome); },
                    answer.outcome) +
         At(answer.decided_at);
}

std::string Describe(const CompleteAnswer& answer) {
  return absl::StrCat(answer.already_completed ? "already " : "",
                      "completed at ", Text(answer.completed_at), ", kept to ",
                      Text(answer.expires_at), At(answer.decided_at));
}

std::string Describe(const ExtendAnswer& answer) {
  return absl::StrCat("extended to ", Text(answer.lease_expires_at),
                      At(answer.decided_at));
}

std::string Describe(const ReleaseAnswer& answer) {
  return absl::StrCat("released, kept to ", Text(answer.expires_at),
                      At(answer.decided_at));
}

std::string Describe(const LookupAnswer& answer) {
  return absl::StrCat(
      Text(answer.state), ", operation \"", absl::CHexEscape(answer.operation),
      "\", attempt number ", answer.attempt_number, ", created ",
      Text(answer.created_at), ", started ", Text(answer.started_at),
      ", lease to ", Text(answer.lease_expires_at), ", completed ",
      Text(answer.completed_at), ", kept to ", Text(answer.expires_at),
      answer.response.has_value() ? ", " + Text(*answer.response) : "",
      At(answer.decided_at));
}

std::string Describe(const ReapAnswer& answer) {
  return absl::StrCat(
      "examined ", answer.examined, ", deleted ", answer.deleted, ", lag ",
      absl::FormatDuration(answer.lag),
      answer.clock_refused ? ", clock refused" : "", At(answer.decided_at));
}

std::string Describe(const ProbeAnswer& answer) {
  return absl::StrCat("schema ", answer.schema_version, ", compatible from ",
                      answer.compatible_from, At(answer.decided_at));
}

std::string DescribeRefusal(const absl::Status& status) {
  const absl::string_view name = ReasonName(ReasonOf(status));
  return absl::StrCat("refused: ",
                      name.empty() ? status.ToString() : std::string(name));
}

}  // namespace dedupe
