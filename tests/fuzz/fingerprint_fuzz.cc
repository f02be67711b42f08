// client/include/dedupe/fingerprint.h: canonical JSON, JSON Pointers and the
// parts of a fingerprint. An input is lines that begin with "/", each a pointer
// to leave out, and then the body.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "dedupe/fingerprint.h"
#include "tests/fuzz/check.h"

namespace dedupe::client {
namespace {

using ::dedupe::testing::Check;

constexpr char kOperation[] = "POST /v1/charges";
constexpr size_t kDigestBytes = 32;

JsonFingerprintOptions TakePointers(absl::string_view& input) {
  JsonFingerprintOptions options;
  while (absl::StartsWith(input, "/")) {
    const size_t end = input.find('\n');
    options.excluded.emplace_back(input.substr(0, end));
    input.remove_prefix(end == input.npos ? input.size() : end + 1);
  }
  return options;
}

void CanonicalFormIsAFixedPoint(absl::string_view body) {
  const absl::StatusOr<std::string> canonical = CanonicalJson(body);
  if (!canonical.ok()) {
    Check(absl::IsInvalidArgument(canonical.status()),
          "JSON is refused as such");
    Check(!FingerprintJson(kOperation, body).ok(),
          "what has no canonical form has no fingerprint");
    return;
  }
  const absl::StatusOr<std::string> again = CanonicalJson(*canonical);
  Check(again.ok() && *again == *canonical, "the canonical form is final");
  // Another reader, which knows nothing of canonical forms.
  const nlohmann::json before =
      nlohmann::json::parse(body.begin(), body.end(), nullptr, false);
  const nlohmann::json after =
      nlohmann::json::parse(*canonical, nullptr, false);
  Check(!before.is_discarded() && before == after, "it means the same");
  Check(*FingerprintJson(kOperation, body) ==
            *FingerprintJson(kOperation, *canonical),
        "equal requests have one fingerprint");
}

void PointersLeaveOut(absl::string_view body,
                      const JsonFingerprintOptions& options) {
  const auto part = FingerprintJson(kOperation, body, options);
  if (!part.ok()) {
    Check(absl::IsInvalidArgument(part.status()),
          "pointers are refused as such");
    return;
  }
  Check(part->size() == kDigestBytes, "a fingerprint is 32 bytes");
  Check(CanonicalJson(body).ok(), "what is left out must be sound too");
  // The pointers are digested with it, so none and some never agree.
  Check(
      (*part == *FingerprintJson(kOperation, body)) == options.excluded.empty(),
      "what is left out makes another fingerprint");
}

// Bytes that move from one part to the next make another request.
void PartsDoNotRunTogether(absl::string_view body) {
  const size_t place = body.size() / 2;
  const absl::string_view head = body.substr(0, place);
  const absl::string_view tail = body.substr(place);
  const std::string whole = FingerprintRaw({.operation = "", .body = body});
  Check(whole.size() == kDigestBytes, "a fingerprint is 32 bytes");
  const std::string parts[] = {
      FingerprintRaw({.operation = body, .body = ""}),
      FingerprintRaw({.operation = head, .body = tail}),
      FingerprintRaw({.operation = "", .content_type = "", .body = body}),
      FingerprintRaw({.operation = "", .content_type = head, .body = tail}),
      FingerprintRaw({.operation = head, .content_type = tail, .body = ""}),
  };
  Check(parts[2] != whole, "absent and empty are different");
  if (place == 0) return;
  for (const std::string& part : parts) {
    Check(part != whole, "parts do not run together");
  }
}

}  // namespace
}  // namespace dedupe::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view body(reinterpret_cast<const char*>(data), size);
  dedupe::client::PartsDoNotRunTogether(body);
  const auto options = dedupe::client::TakePointers(body);
  dedupe::client::CanonicalFormIsAFixedPoint(body);
  dedupe::client::PointersLeaveOut(body, options);
  return 0;
}
