#include "dedupe/fingerprint.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/src/canonical_json.h"
#include "client/src/digest.h"

namespace dedupe::client {
namespace {

// Keys that are stored bear these digests: nothing of a scheme may change.
constexpr char kRawScheme[] = "dedupe-raw-1";
constexpr char kJsonScheme[] = "dedupe-json-1";

constexpr size_t kExcludedMax = 64;

absl::StatusOr<std::vector<JsonPointer>> ParsePointers(
    const std::vector<std::string>& texts) {
  if (texts.size() > kExcludedMax) {
    return absl::InvalidArgumentError("more than 64 excluded JSON Pointers");
  }
  std::vector<JsonPointer> pointers;
  for (const std::string& text : texts) {
    absl::StatusOr<JsonPointer> pointer = ParseJsonPointer(text);
    if (!pointer.ok()) return pointer.status();
    pointers.push_back(*std::move(pointer));
  }
  return pointers;
}

// As a set: neither order nor repetition changes what is excluded.
std::vector<std::string> AsSet(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

}  // namespace

std::string FingerprintRaw(const RequestParts& parts) {
  PartWriter writer;
  writer.Add(kRawScheme).Add(parts.operation);
  // Four parts or three: so absent differs from empty.
  if (parts.content_type) writer.Add(*parts.content_type);
  writer.Add(parts.body);
  return Sha256(writer.text());
}

absl::StatusOr<std::string> FingerprintJson(
    absl::string_view operation, absl::string_view body,
    const JsonFingerprintOptions& options) {
  const absl::StatusOr<std::vector<JsonPointer>> excluded =
      ParsePointers(options.excluded);
  if (!excluded.ok()) return excluded.status();
  const absl::StatusOr<std::string> canonical =
      CanonicalJsonWithout(body, *excluded);
  if (!canonical.ok()) return canonical.status();

  PartWriter writer;
  writer.Add(kJsonScheme).Add(operation).Add(*canonical);
  for (const std::string& pointer : AsSet(options.excluded)) {
    writer.Add(pointer);
  }
  return Sha256(writer.text());
}

}  // namespace dedupe::client
