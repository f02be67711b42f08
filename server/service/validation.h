// The bounds of limits.h, applied to a call before anything is asked of the
// store. Each returns OK or INVALID_ARGUMENT with the first rule broken and its
// field, in the order of the message's fields.
#ifndef DEDUPE_SERVER_SERVICE_VALIDATION_H_
#define DEDUPE_SERVER_SERVICE_VALIDATION_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/service/record.h"

namespace dedupe {

absl::Status Validate(const BeginCommand& command);
absl::Status Validate(const CompleteCommand& command);
absl::Status Validate(const ExtendCommand& command);
absl::Status Validate(const ReleaseCommand& command);
absl::Status Validate(const LookupCommand& command);
absl::Status ValidateWait(std::optional<absl::Duration> wait);

// Whether UTF-8 text holds a character of category Cc: U+0000-U+001F,
// U+007F-U+009F.
bool HasControlCharacter(absl::string_view utf8);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_VALIDATION_H_
