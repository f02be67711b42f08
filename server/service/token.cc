#include "server/service/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dedupe {
namespace {

constexpr absl::string_view kScheme = "Bearer ";
constexpr absl::string_view kPrefix = "dedupe_";
constexpr size_t kIdBytes = 8;
constexpr size_t kSecretBytes = 32;
// In digits, two for each byte, with the dot between.
constexpr size_t kTokenLength =
    kPrefix.size() + 2 * kIdBytes + 1 + 2 * kSecretBytes;

std::string Sha256(absl::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         digest.data());
  return {digest.begin(), digest.end()};
}

template <size_t kBytes>
absl::StatusOr<std::string> RandomHex() {
  std::array<unsigned char, kBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(kBytes)) != 1) {
    return absl::InternalError("the system's random source has failed");
  }
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

}  // namespace

absl::StatusOr<MintedToken> MintToken() {
  auto id = RandomHex<kIdBytes>();
  if (!id.ok()) return id.status();
  auto secret = RandomHex<kSecretBytes>();
  if (!secret.ok()) return secret.status();
  MintedToken token;
  token.text = absl::StrCat(kPrefix, *id, ".", *secret);
  token.id = *std::move(id);
  token.sha256 = Sha256(*secret);
  return token;
}

std::optional<PresentedToken> ParseBearer(absl::string_view header) {
  if (header.size() != kScheme.size() + kTokenLength ||
      !absl::StartsWithIgnoreCase(header, kScheme)) {
    return std::nullopt;
  }
  const absl::string_view token = header.substr(kScheme.size());
  const absl::string_view id = token.substr(kPrefix.size(), 2 * kIdBytes);
  const absl::string_view secret =
      token.substr(kTokenLength - 2 * kSecretBytes);
  if (!absl::StartsWith(token, kPrefix) ||
      token[kPrefix.size() + id.size()] != '.' || !IsLowerHex(id) ||
      !IsLowerHex(secret)) {
    return std::nullopt;
  }
  return PresentedToken{std::string(id), Sha256(secret)};
}

bool SameDigest(absl::string_view left, absl::string_view right) {
  return left.size() == right.size() &&
         CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace dedupe
