#include "server/store/access_document.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "server/service/reason.h"

namespace dedupe {
namespace {

using Json = nlohmann::json;

constexpr size_t kSha256Bytes = 32;

// Reads the members of objects. What it cannot read makes it fail, once and for
// all, so that one look at ok() at the end is enough.
class DocumentReader {
 public:
  bool ok() const { return ok_; }

  std::string Text(const Json& object, const char* name) {
    const Json* member = Member(object, name);
    if (member == nullptr || !member->is_string()) return Fail(std::string());
    return *member->get_ptr<const std::string*>();
  }

  std::optional<int64_t> MaybeInteger(const Json& object, const char* name) {
    const Json* member = Member(object, name);
    if (member == nullptr) return Fail(std::nullopt);
    if (member->is_null()) return std::nullopt;
    if (!member->is_number_integer()) return Fail(std::nullopt);
    return member->get<int64_t>();
  }

  std::string Digest(const Json& object, const char* name) {
    const std::string hex = Text(object, name);
    if (hex.size() != 2 * kSha256Bytes ||
        hex.find_first_not_of("0123456789abcdef") != hex.npos) {
      return Fail(std::string());
    }
    return absl::HexStringToBytes(hex);
  }

  // What `read` makes of each element of an array.
  template <typename Element, typename Read>
  std::vector<Element> Array(const Json& object, const char* name, Read read) {
    const Json* member = Member(object, name);
    std::vector<Element> elements;
    if (member == nullptr || !member->is_array()) return Fail(elements);
    elements.reserve(member->size());
    for (const Json& element : *member) elements.push_back(read(element));
    return elements;
  }

  std::string TextElement(const Json& element) {
    if (!element.is_string()) return Fail(std::string());
    return *element.get_ptr<const std::string*>();
  }

 private:
  static const Json* Member(const Json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }

  template <typename Value>
  Value Fail(Value value) {
    ok_ = false;
    return value;
  }
  std::nullopt_t Fail(std::nullopt_t nothing) {
    ok_ = false;
    return nothing;
  }

  bool ok_ = true;
};

Principal ReadPrincipal(DocumentReader& reader, const Json& object) {
  Principal principal;
  principal.name = reader.Text(object, "name");
  principal.role = RoleOf(reader.Text(object, "role"));
  principal.client_ids = reader.Array<std::string>(
      object, "client_ids",
      [&](const Json& element) { return reader.TextElement(element); });
  Quota& quota = principal.quota;
  quota.calls_in_flight_max =
      reader.MaybeInteger(object, "calls_in_flight_max");
  quota.calls_per_second_max =
      reader.MaybeInteger(object, "calls_per_second_max");
  quota.live_keys_max = reader.MaybeInteger(object, "live_keys_max");
  quota.stored_bytes_max = reader.MaybeInteger(object, "stored_bytes_max");
  return principal;
}

Token ReadToken(DocumentReader& reader, const Json& object) {
  Token token;
  token.id = reader.Text(object, "id");
  token.sha256 = reader.Digest(object, "sha256");
  token.principal = reader.Text(object, "principal");
  if (const auto expires_us = reader.MaybeInteger(object, "expires_us")) {
    token.expires_at = absl::FromUnixMicros(*expires_us);
  }
  return token;
}

CertificateName ReadCertificateName(DocumentReader& reader,
                                    const Json& object) {
  CertificateName name;
  name.name = reader.Text(object, "name");
  name.principal = reader.Text(object, "principal");
  return name;
}

}  // namespace

absl::StatusOr<AccessList> DecodeAccessDocument(absl::string_view json) {
  const Json document = Json::parse(json.begin(), json.end(), nullptr,
                                    /*allow_exceptions=*/false);
  DocumentReader reader;
  AccessList list;
  list.principals = reader.Array<Principal>(
      document, "principals",
      [&](const Json& element) { return ReadPrincipal(reader, element); });
  list.tokens = reader.Array<Token>(
      document, "tokens",
      [&](const Json& element) { return ReadToken(reader, element); });
  list.certificate_names = reader.Array<CertificateName>(
      document, "certificate_names", [&](const Json& element) {
        return ReadCertificateName(reader, element);
      });
  if (!reader.ok()) return Refusal(Reason::kRecordDamaged);
  return list;
}

}  // namespace dedupe
