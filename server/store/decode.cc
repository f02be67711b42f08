#include "server/store/decode.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "server/service/reason.h"
#include "server/store/access_document.h"

namespace dedupe {
namespace {

// Reads one row from left to right. What it cannot read makes it fail, once and
// for all, so that one look at ok() at the end is enough.
class RowReader {
 public:
  explicit RowReader(const pqxx::row& row) : row_(row) {}

  bool ok() const { return ok_; }

  void Skip(pqxx::row::size_type columns) { column_ += columns; }

  std::string Text() {
    const pqxx::field field = Next();
    return field.is_null() ? "" : std::string(field.c_str());
  }

  std::string Bytes() {
    const pqxx::field field = Next();
    if (field.is_null()) return "";
    const absl::string_view digits(field.c_str(), field.size());
    // Abseil makes something of whatever it is given.
    if (digits.size() % 2 != 0 ||
        !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit)) {
      ok_ = false;
      return "";
    }
    return absl::HexStringToBytes(digits);
  }

  // NULL is no integer here; where it may be, see MaybeTime.
  int64_t Integer() {
    const pqxx::field field = Next();
    int64_t value = 0;
    if (field.is_null() || !absl::SimpleAtoi(field.c_str(), &value)) {
      ok_ = false;
    }
    return value;
  }
  int32_t Integer32() {
    const int64_t value = Integer();
    if (value != static_cast<int32_t>(value)) ok_ = false;
    return static_cast<int32_t>(value);
  }

  bool Boolean() {
    const pqxx::field field = Next();
    if (field.is_null()) {
      ok_ = false;
      return false;
    }
    const absl::string_view text(field.c_str(), field.size());
    if (text != "t" && text != "f") ok_ = false;
    return text == "t";
  }

  absl::Time Time() { return absl::FromUnixMicros(Integer()); }

  std::optional<absl::Time> MaybeTime() {
    if (row_[column_].is_null()) {
      ++column_;
      return std::nullopt;
    }
    return Time();
  }

  // Four columns: code, headers, body, body_omitted.
  Response ReadResponse() {
    Response response;
    response.code = Integer32();
    const std::string headers = Text();
    if (!headers.empty()) {
      auto decoded = DecodeHeaders(headers);
      if (decoded.ok()) {
        response.headers = *std::move(decoded);
      } else {
        ok_ = false;
      }
    }
    const bool has_body = !row_[column_].is_null();
    response.body = Bytes();
    response.body_omitted = Boolean();
    // An empty body is there; an absent one has been left out.
    if (has_body == response.body_omitted) ok_ = false;
    return response;
  }

 private:
  pqxx::field Next() { return row_[column_++]; }

  const pqxx::row& row_;
  pqxx::row::size_type column_ = 0;
  bool ok_ = true;
};

constexpr int kOutcomeColumn = 2;

absl::string_view OutcomeOf(const pqxx::row& row) {
  const pqxx::field field = row[kOutcomeColumn];
  return absl::string_view(field.c_str(), field.size());
}

template <typename Answer>
absl::StatusOr<Answer> Checked(const RowReader& reader, Answer answer) {
  if (!reader.ok()) return Refusal(Reason::kRecordDamaged);
  return answer;
}

// What an outcome that refuses is called on the wire.
absl::Status RefusalOf(absl::string_view outcome) {
  static constexpr std::pair<absl::string_view, Reason> kReasons[] = {
      {"key_unknown", Reason::kKeyUnknown},
      {"lease_lost", Reason::kLeaseLost},
      {"response_conflict", Reason::kResponseConflict},
      {"already_completed", Reason::kAlreadyCompleted},
      {"attempt_finished", Reason::kAttemptFinished},
  };
  for (const auto& [name, reason] : kReasons) {
    if (outcome == name) return Refusal(reason);
  }
  return Refusal(Reason::kRecordDamaged);
}

std::optional<RecordState> StateOf(absl::string_view name) {
  static constexpr std::pair<absl::string_view, RecordState> kStates[] = {
      {"absent", RecordState::kAbsent},
      {"in_progress", RecordState::kInProgress},
      {"released", RecordState::kReleased},
      {"in_doubt", RecordState::kInDoubt},
      {"completed", RecordState::kCompleted},
  };
  for (const auto& [known, state] : kStates) {
    if (name == known) return state;
  }
  return std::nullopt;
}

}  // namespace

RecordId DecodeId(const pqxx::row& row) {
  RowReader reader(row);
  RecordId id;
  id.client_id = reader.Text();
  id.key = reader.Text();
  return id;
}

bool IsRetry(const pqxx::row& row) { return OutcomeOf(row) == "retry"; }

absl::StatusOr<BeginAnswer> DecodeBegin(const pqxx::row& row) {
  // The columns from `fence` on; those of other outcomes are passed over.
  RowReader reader(row);
  BeginAnswer answer;
  const absl::string_view outcome = OutcomeOf(row);
  reader.Skip(3);
  if (outcome == "started") {
    Started started;
    started.fence = reader.Integer();
    started.attempt_number = reader.Integer32();
    started.resumed = reader.Boolean();
    started.taken_over = reader.Boolean();
    started.checkpoint = reader.Bytes();
    reader.Skip(2);
    started.lease_expires_at = reader.Time();
    reader.Skip(6);
    answer.outcome = std::move(started);
  } else if (outcome == "replay") {
    Replay replay;
    reader.Skip(8);
    replay.completed_at = reader.Time();
    replay.expires_at = reader.Time();
    replay.response = reader.ReadResponse();
    answer.outcome = std::move(replay);
  } else if (outcome == "in_progress") {
    InProgress in_progress;
    reader.Skip(6);
    in_progress.started_at = reader.Time();
    in_progress.lease_expires_at = reader.Time();
    reader.Skip(6);
    answer.outcome = in_progress;
  } else if (outcome == "mismatch") {
    Mismatch mismatch;
    reader.Skip(5);
    mismatch.first_seen_at = reader.Time();
    reader.Skip(8);
    answer.outcome = mismatch;
  } else if (outcome == "in_doubt") {
    InDoubt in_doubt;
    reader.Skip(1);
    in_doubt.attempt_number = reader.Integer32();
    reader.Skip(5);
    in_doubt.since = reader.Time();
    reader.Skip(6);
    answer.outcome = in_doubt;
  } else {
    return RefusalOf(outcome);
  }
  answer.decided_at = reader.Time();
  return Checked(reader, std::move(answer));
}

absl::StatusOr<CompleteAnswer> DecodeComplete(const pqxx::row& row) {
  const absl::string_view outcome = OutcomeOf(row);
  if (outcome != "completed" && outcome != "already_completed") {
    return RefusalOf(outcome);
  }
  RowReader reader(row);
  CompleteAnswer answer;
  reader.Skip(3);
  answer.already_completed = outcome == "already_completed";
  answer.completed_at = reader.Time();
  answer.expires_at = reader.Time();
  answer.decided_at = reader.Time();
  return Checked(reader, answer);
}

absl::StatusOr<ExtendAnswer> DecodeExtend(const pqxx::row& row) {
  if (OutcomeOf(row) != "extended") return RefusalOf(OutcomeOf(row));
  RowReader reader(row);
  ExtendAnswer answer;
  reader.Skip(3);
  answer.lease_expires_at = reader.Time();
  answer.decided_at = reader.Time();
  return Checked(reader, answer);
}

absl::StatusOr<ReleaseAnswer> DecodeRelease(const pqxx::row& row) {
  if (OutcomeOf(row) != "released") return RefusalOf(OutcomeOf(row));
  RowReader reader(row);
  ReleaseAnswer answer;
  reader.Skip(3);
  answer.expires_at = reader.Time();
  answer.decided_at = reader.Time();
  return Checked(reader, answer);
}

absl::StatusOr<LookupAnswer> DecodeLookup(const pqxx::row& row) {
  const std::optional<RecordState> state = StateOf(OutcomeOf(row));
  if (!state.has_value()) return Refusal(Reason::kRecordDamaged);
  RowReader reader(row);
  LookupAnswer answer;
  answer.state = *state;
  reader.Skip(3);
  if (answer.state == RecordState::kAbsent) {
    reader.Skip(11);
  } else {
    answer.operation = reader.Text();
    answer.attempt_number = reader.Integer32();
    answer.created_at = reader.MaybeTime();
    answer.started_at = reader.MaybeTime();
    answer.lease_expires_at = reader.MaybeTime();
    answer.completed_at = reader.MaybeTime();
    answer.expires_at = reader.MaybeTime();
    // The code is NULL too where no response was asked for.
    constexpr int kCodeColumn = 10;
    if (row[kCodeColumn].is_null()) {
      reader.Skip(4);
    } else {
      answer.response = reader.ReadResponse();
    }
  }
  answer.decided_at = reader.Time();
  return Checked(reader, std::move(answer));
}

absl::StatusOr<ReapAnswer> DecodeReap(const pqxx::row& row) {
  RowReader reader(row);
  ReapAnswer answer;
  answer.examined = reader.Integer32();
  answer.deleted = reader.Integer32();
  answer.lag = absl::Microseconds(reader.Integer());
  answer.clock_refused = reader.Boolean();
  answer.decided_at = reader.Time();
  return Checked(reader, answer);
}

absl::StatusOr<ProbeAnswer> DecodeProbe(const pqxx::row& row) {
  RowReader reader(row);
  ProbeAnswer answer;
  answer.schema_version = reader.Integer32();
  answer.compatible_from = reader.Integer32();
  answer.decided_at = reader.Time();
  return Checked(reader, answer);
}

absl::StatusOr<AccessAnswer> DecodeAccess(const pqxx::row& row) {
  RowReader reader(row);
  AccessAnswer answer;
  answer.version = reader.Integer();
  if (const std::string document = reader.Text(); !document.empty()) {
    auto list = DecodeAccessDocument(document);
    if (!list.ok()) return list.status();
    answer.list = *std::move(list);
  }
  answer.decided_at = reader.Time();
  return Checked(reader, std::move(answer));
}

absl::StatusOr<UsageAnswer> DecodeUsage(const pqxx::row& row) {
  RowReader reader(row);
  UsageAnswer answer;
  answer.rows = reader.Integer32();
  answer.live_keys = reader.Integer();
  answer.stored_bytes = reader.Integer();
  answer.last_client_id = reader.Text();
  answer.last_key = reader.Text();
  answer.decided_at = reader.Time();
  return Checked(reader, std::move(answer));
}

std::string EncodeHeaders(const std::vector<Header>& headers) {
  nlohmann::json json = nlohmann::json::array();
  for (const Header& header : headers) {
    json.push_back({header.name, header.value});
  }
  return json.dump();
}

absl::StatusOr<std::vector<Header>> DecodeHeaders(absl::string_view json) {
  const nlohmann::json parsed = nlohmann::json::parse(
      json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array()) return Refusal(Reason::kRecordDamaged);
  std::vector<Header> headers;
  for (const nlohmann::json& pair : parsed) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() ||
        !pair[1].is_string()) {
      return Refusal(Reason::kRecordDamaged);
    }
    headers.push_back({pair[0], pair[1]});
  }
  return headers;
}

}  // namespace dedupe
