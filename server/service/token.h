// Bearer tokens: how they look, how they are made, and how one that is
// presented is compared with what is kept.
//
// A token is `dedupe_ID.SECRET`: 16 hexadecimal digits that name it, and 256
// random bits as 64 hexadecimal digits that prove it. What is kept is SHA-256
// of the secret's text: enough for a secret that cannot be guessed. The prefix
// lets scanners find tokens that went where they should not be.
#ifndef DEDUPE_SERVER_SERVICE_TOKEN_H_
#define DEDUPE_SERVER_SERVICE_TOKEN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dedupe {

struct MintedToken {
  // To be shown once, and kept nowhere.
  std::string text;
  std::string id;
  // 32 bytes.
  std::string sha256;
};

// Of the system's random source. INTERNAL if that fails.
absl::StatusOr<MintedToken> MintToken();

struct PresentedToken {
  std::string id;
  // Of the secret that was presented; 32 bytes.
  std::string sha256;
};

// Of the value of an `authorization` header: `Bearer`, in any case, one space
// and the token. Nothing if it is anything else.
std::optional<PresentedToken> ParseBearer(absl::string_view header);

// In a time that does not depend on where they differ.
bool SameDigest(absl::string_view left, absl::string_view right);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_TOKEN_H_
