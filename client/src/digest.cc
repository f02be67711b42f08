#include "client/src/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace dedupe::client {
namespace {

using Digest = std::array<unsigned char, kSha256Bytes>;

[[noreturn]] void EndWithoutSha256() {
  std::fputs("dedupe: OpenSSL gave no SHA-256\n", stderr);
  std::abort();
}

std::string AsString(const Digest& digest) {
  return std::string(digest.begin(), digest.end());
}

}  // namespace

std::string Sha256(absl::string_view data) {
  Digest digest;
  unsigned int size = 0;
  if (EVP_Digest(data.data(), data.size(), digest.data(), &size, EVP_sha256(),
                 nullptr) != 1 ||
      size != digest.size()) {
    EndWithoutSha256();
  }
  return AsString(digest);
}

std::string HmacSha256(absl::string_view secret, absl::string_view data) {
  // HMAC takes an int for the secret's size, and a null secret for "as before".
  // A secret longer than a block is used by its digest anyway (RFC 2104).
  const std::string key =
      secret.size() > INT_MAX ? Sha256(secret) : std::string(secret);
  Digest digest;
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(data.data()), data.size(),
           digest.data(), &size) == nullptr ||
      size != digest.size()) {
    EndWithoutSha256();
  }
  return AsString(digest);
}

std::string LowerHex(absl::string_view bytes) {
  return absl::BytesToHexString(bytes);
}

PartWriter& PartWriter::Add(absl::string_view part) {
  const uint64_t size = part.size();
  for (int shift = 56; shift >= 0; shift -= 8) {
    text_.push_back(static_cast<char>((size >> shift) & 0xff));
  }
  text_.append(part.data(), part.size());
  return *this;
}

}  // namespace dedupe::client
