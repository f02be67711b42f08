#include "server/service/validation.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/service/limits.h"
#include "server/service/reason.h"

namespace dedupe {
namespace {

// What may be wrong with a text, and what to call it. A reason left out is a
// rule that the field does not have.
struct TextRules {
  absl::string_view field;
  size_t bytes_max;
  Reason characters;
  Reason too_long;
  std::optional<Reason> empty;
};

absl::Status ValidateText(absl::string_view text, const TextRules& rules) {
  if (text.empty() && rules.empty.has_value()) {
    return Refusal(*rules.empty, rules.field);
  }
  if (text.size() > rules.bytes_max) {
    return Refusal(rules.too_long, rules.field);
  }
  if (HasControlCharacter(text)) {
    return Refusal(rules.characters, rules.field);
  }
  return absl::OkStatus();
}

absl::Status ValidateId(const RecordId& id) {
  absl::Status status =
      ValidateText(id.client_id, {.field = "client_id",
                                  .bytes_max = kClientIdBytesMax,
                                  .characters = Reason::kClientIdCharacters,
                                  .too_long = Reason::kClientIdTooLong,
                                  .empty = Reason::kClientIdEmpty});
  if (!status.ok()) return status;
  return ValidateText(id.key, {.field = "key",
                               .bytes_max = kKeyBytesMax,
                               .characters = Reason::kKeyCharacters,
                               .too_long = Reason::kKeyTooLong,
                               .empty = Reason::kKeyEmpty});
}

absl::Status ValidateAttemptId(absl::string_view attempt_id) {
  return ValidateText(attempt_id, {.field = "attempt_id",
                                   .bytes_max = kAttemptIdBytesMax,
                                   .characters = Reason::kAttemptIdCharacters,
                                   .too_long = Reason::kAttemptIdTooLong,
                                   .empty = Reason::kAttemptIdEmpty});
}

absl::Status ValidateHolding(const RecordId& id, const Holder& holder) {
  absl::Status status = ValidateId(id);
  if (!status.ok()) return status;
  status = ValidateAttemptId(holder.attempt_id);
  if (!status.ok()) return status;
  if (holder.fence <= 0) return Refusal(Reason::kFenceRange, "fence");
  return absl::OkStatus();
}

absl::Status ValidateLease(std::optional<absl::Duration> lease) {
  if (lease.has_value() && (*lease < kLeaseMin || *lease > kLeaseMax)) {
    return Refusal(Reason::kLeaseRange, "lease");
  }
  return absl::OkStatus();
}

absl::Status ValidateHeaders(const Response& response) {
  if (response.headers.size() > kHeadersMax) {
    return Refusal(Reason::kHeadersTooMany, "response.headers");
  }
  size_t bytes = 0;
  for (size_t i = 0; i < response.headers.size(); ++i) {
    const Header& header = response.headers[i];
    const std::string path = absl::StrCat("response.headers[", i, "]");
    if (header.name.empty()) {
      return Refusal(Reason::kHeaderNameEmpty, path + ".name");
    }
    if (HasControlCharacter(header.name)) {
      return Refusal(Reason::kHeaderNameCharacters, path + ".name");
    }
    if (HasControlCharacter(header.value)) {
      return Refusal(Reason::kHeaderValueCharacters, path + ".value");
    }
    bytes += header.name.size() + header.value.size();
  }
  if (bytes > kHeadersBytesMax) {
    return Refusal(Reason::kHeadersTooLarge, "response.headers");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const BeginCommand& command) {
  absl::Status status = ValidateId(command.id);
  if (!status.ok()) return status;
  status = ValidateText(command.operation,
                        {.field = "operation",
                         .bytes_max = kOperationBytesMax,
                         .characters = Reason::kOperationCharacters,
                         .too_long = Reason::kOperationTooLong,
                         .empty = std::nullopt});
  if (!status.ok()) return status;
  // Bytes, not text: any will do.
  if (command.fingerprint.empty()) {
    return Refusal(Reason::kFingerprintEmpty, "fingerprint");
  }
  if (command.fingerprint.size() > kFingerprintBytesMax) {
    return Refusal(Reason::kFingerprintTooLong, "fingerprint");
  }
  status = ValidateAttemptId(command.attempt_id);
  if (!status.ok()) return status;
  status = ValidateLease(command.lease);
  if (!status.ok()) return status;
  if (command.ttl.has_value() &&
      (*command.ttl < kTtlMin || *command.ttl > kTtlMax)) {
    return Refusal(Reason::kTtlRange, "ttl");
  }
  return absl::OkStatus();
}

absl::Status Validate(const CompleteCommand& command) {
  absl::Status status = ValidateHolding(command.id, command.holder);
  if (!status.ok()) return status;
  status = ValidateHeaders(command.response);
  if (!status.ok()) return status;
  if (command.response.body.size() > kBodyBytesMax) {
    return Refusal(Reason::kResponseTooLarge, "response.body");
  }
  if (command.response.body_omitted && !command.response.body.empty()) {
    return Refusal(Reason::kBodyNotOmitted, "response.body");
  }
  return absl::OkStatus();
}

absl::Status Validate(const ExtendCommand& command) {
  absl::Status status = ValidateHolding(command.id, command.holder);
  if (!status.ok()) return status;
  status = ValidateLease(command.lease);
  if (!status.ok()) return status;
  if (command.checkpoint.size() > kCheckpointBytesMax) {
    return Refusal(Reason::kCheckpointTooLarge, "checkpoint");
  }
  return absl::OkStatus();
}

absl::Status Validate(const ReleaseCommand& command) {
  return ValidateHolding(command.id, command.holder);
}

absl::Status Validate(const LookupCommand& command) {
  return ValidateId(command.id);
}

absl::Status ValidateWait(std::optional<absl::Duration> wait) {
  if (wait.has_value() && (*wait <= absl::ZeroDuration() || *wait > kWaitMax)) {
    return Refusal(Reason::kWaitRange, "wait");
  }
  return absl::OkStatus();
}

bool HasControlCharacter(absl::string_view utf8) {
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    // U+0080-U+009F are C2 80 to C2 9F, and C2 starts nothing else.
    if (byte == 0xc2 && i + 1 < utf8.size() &&
        static_cast<unsigned char>(utf8[i + 1]) < 0xa0) {
      return true;
    }
  }
  return false;
}

}  // namespace dedupe
