#include "dedupe/key.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/src/digest.h"

namespace dedupe::client {
namespace {

constexpr size_t kUuidBytes = 16;
constexpr size_t kSecretBytesMin = 16;
// Another way of making downstream keys gets another name.
constexpr char kDownstreamScheme[] = "dedupe-downstream-1";

using UuidBytes = std::array<uint8_t, kUuidBytes>;

// RFC 9562, section 4: the version and the variant take six of the bits.
std::string Uuid(UuidBytes bytes, uint8_t version) {
  bytes[6] = static_cast<uint8_t>(version << 4 | (bytes[6] & 0x0f));
  bytes[8] = static_cast<uint8_t>(0x80 | (bytes[8] & 0x3f));
  const std::string hex = LowerHex(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), 16));
  const absl::string_view digits = hex;
  return absl::StrCat(digits.substr(0, 8), "-", digits.substr(8, 4), "-",
                      digits.substr(12, 4), "-", digits.substr(16, 4), "-",
                      digits.substr(20));
}

// Straight from the kernel: a generator of our own would have a state, which
// fork() copies.
std::string RandomUuid() {
  UuidBytes bytes;
  if (getentropy(bytes.data(), bytes.size()) != 0) {
    std::perror("dedupe: the kernel gave no random bytes");
    std::abort();
  }
  return Uuid(bytes, 4);
}

}  // namespace

std::string NewKey() { return RandomUuid(); }

std::string NewAttemptId() { return RandomUuid(); }

absl::StatusOr<std::string> DownstreamKey(absl::string_view secret,
                                          absl::string_view client_id,
                                          absl::string_view key,
                                          absl::string_view label) {
  if (secret.size() < kSecretBytesMin) {
    return absl::InvalidArgumentError(
        "the secret for downstream keys is shorter than 16 bytes");
  }
  PartWriter parts;
  parts.Add(kDownstreamScheme).Add(client_id).Add(key).Add(label);
  const std::string digest = HmacSha256(secret, parts.text());
  UuidBytes bytes;
  std::copy_n(digest.begin(), bytes.size(), bytes.begin());
  return Uuid(bytes, 8);
}

}  // namespace dedupe::client
