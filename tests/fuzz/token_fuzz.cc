// server/service/token.h: the value of an `authorization` header.
#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/service/token.h"
#include "tests/fuzz/check.h"

namespace dedupe {
namespace {

using ::dedupe::testing::Check;

constexpr size_t kIdDigits = 16;
constexpr size_t kSecretDigits = 64;

bool IsLowerHex(absl::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string Digest(absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  return {digest, digest + size};
}

// What is taken for a token is one, spelt in the one way there is.
void ReadAnything(absl::string_view header) {
  const std::optional<PresentedToken> token = ParseBearer(header);
  if (!token.has_value()) return;
  const absl::string_view secret = header.substr(header.size() - kSecretDigits);
  Check(token->id.size() == kIdDigits && IsLowerHex(token->id),
        "an id is 16 digits");
  Check(IsLowerHex(secret), "a secret is 64 digits");
  Check(SameDigest(token->sha256, Digest(secret)),
        "the digest is the secret's");
  const std::string text =
      absl::StrCat("bearer dedupe_", token->id, ".", secret);
  Check(absl::AsciiStrToLower(header) == text, "nothing else is in the header");
}

// The token that these bytes make is taken; changed in one place it is another
// or none.
void ReadOne(absl::string_view bytes) {
  std::string material(bytes.substr(0, (kIdDigits + kSecretDigits) / 2));
  material.resize((kIdDigits + kSecretDigits) / 2);
  const std::string digits = absl::BytesToHexString(material);
  std::string header =
      absl::StrCat("Bearer dedupe_", digits.substr(0, kIdDigits), ".",
                   digits.substr(kIdDigits));
  const std::optional<PresentedToken> token = ParseBearer(header);
  Check(token.has_value(), "a well-formed token is taken");
  Check(!SameDigest(token->sha256, token->id), "a digest is no id");

  if (bytes.size() < 2) return;
  const size_t place =
      static_cast<unsigned char>(bytes.front()) % header.size();
  const bool in_scheme = place < 6;
  if (bytes.back() == header[place] || in_scheme) return;
  header[place] = bytes.back();
  const std::optional<PresentedToken> other = ParseBearer(header);
  Check(!other.has_value() || other->id != token->id ||
            !SameDigest(other->sha256, token->sha256),
        "one byte makes another token");
}

// Not of the input, but part of the unit.
void MintOne() {
  const auto minted = MintToken();
  Check(minted.ok(), "the random source works");
  const auto token = ParseBearer(absl::StrCat("Bearer ", minted->text));
  Check(token.has_value() && token->id == minted->id &&
            SameDigest(token->sha256, minted->sha256),
        "what is minted is taken");
}

}  // namespace
}  // namespace dedupe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool kMinted = (dedupe::MintOne(), true);
  static_cast<void>(kMinted);
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  dedupe::ReadAnything(input);
  dedupe::ReadOne(input);
  return 0;
}
