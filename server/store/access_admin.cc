#include "server/store/access_admin.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/service/limits.h"
#include "server/service/validation.h"
#include "server/store/sql_array.h"
#include "server/store/statements.h"

namespace dedupe {
namespace {

// How many functions kAdministratorRights looks for.
constexpr int kAdministratorFunctions = 6;

absl::Status CheckText(absl::string_view what, absl::string_view text,
                       size_t bytes_max) {
  if (text.empty() || text.size() > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has 1 to ", bytes_max, " bytes"));
  }
  if (HasControlCharacter(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " holds no control characters"));
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view name) {
  return CheckText("a principal's name", name, kPrincipalNameBytesMax);
}

absl::Status CheckCount(absl::string_view what, size_t count, size_t least,
                        size_t most) {
  if (count >= least && count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a principal has ", least, " to ", most, " ", what));
}

absl::Status CheckQuota(absl::string_view name, std::optional<int64_t> quota,
                        int64_t least, int64_t most) {
  if (!quota.has_value() || (*quota >= least && *quota <= most)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is between ", least, " and ", most));
}

absl::Status CheckQuotas(const Quota& quota) {
  absl::Status status =
      CheckQuota("calls_in_flight_max", quota.calls_in_flight_max, 1,
                 kCallsInFlightQuotaMax);
  status.Update(CheckQuota("calls_per_second_max", quota.calls_per_second_max,
                           1, kCallsPerSecondQuotaMax));
  status.Update(
      CheckQuota("live_keys_max", quota.live_keys_max, 0, kLiveKeysQuotaMax));
  status.Update(CheckQuota("stored_bytes_max", quota.stored_bytes_max, 0,
                           kStoredBytesQuotaMax));
  return status;
}

absl::Status CheckCertificateName(absl::string_view name) {
  constexpr size_t kKindBytes = 4;
  if ((!absl::StartsWith(name, "uri:") && !absl::StartsWith(name, "dns:")) ||
      name.size() == kKindBytes) {
    return absl::InvalidArgumentError(
        "a certificate name is like uri:spiffe://prod/shop or"
        " dns:shop.internal");
  }
  return CheckText("a certificate name", name, kCertificateNameBytesMax);
}

absl::Status CheckPrincipal(const Principal& principal,
                            const std::vector<std::string>& certificate_names) {
  absl::Status status = CheckName(principal.name);
  status.Update(CheckCount("client ids", principal.client_ids.size(), 1,
                           kClientIdPatternsMax));
  for (const std::string& pattern : principal.client_ids) {
    status.Update(CheckText("a client id", pattern, kClientIdBytesMax));
  }
  status.Update(CheckCount("certificate names", certificate_names.size(), 0,
                           kCertificateNamesMax));
  for (const std::string& name : certificate_names) {
    status.Update(CheckCertificateName(name));
  }
  status.Update(CheckQuotas(principal.quota));
  return status;
}

absl::Status CheckTokenId(absl::string_view id) {
  constexpr size_t kDigits = 16;
  if (id.size() == kDigits &&
      id.find_first_not_of("0123456789abcdef") == id.npos) {
    return absl::OkStatus();
  }
  // It may be the token itself, which is nobody's to see.
  return absl::InvalidArgumentError(
      "a token's id is 16 hexadecimal digits: what stands in the token between"
      " \"dedupe_\" and the dot");
}

// DNS names are kept in small letters, so that no two are one.
std::vector<std::string> WithoutCase(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (absl::StartsWith(name, "dns:")) absl::AsciiStrToLower(&name);
  }
  return names;
}

std::string Array(const std::vector<std::string>& texts) {
  SqlArray array;
  for (const std::string& text : texts) array.AppendText(text);
  return std::move(array).Take();
}

// NULL is the empty text, as the statements have it.
std::string MaybeNumber(std::optional<int64_t> number) {
  return number.has_value() ? absl::StrCat(*number) : "";
}

std::optional<int64_t> ReadMaybeNumber(const pqxx::field& field) {
  if (field.is_null()) return std::nullopt;
  return field.as<int64_t>();
}

std::optional<absl::Time> ReadMaybeTime(const pqxx::field& field) {
  if (field.is_null()) return std::nullopt;
  return absl::FromUnixMicros(field.as<int64_t>());
}

std::vector<std::string> ReadTexts(const pqxx::field& field) {
  return nlohmann::json::parse(field.c_str());
}

TokenState ReadTokenState(absl::string_view name) {
  if (name == "live") return TokenState::kLive;
  return name == "expired" ? TokenState::kExpired : TokenState::kRevoked;
}

PrincipalListing ReadPrincipal(const pqxx::row& row) {
  PrincipalListing listing;
  listing.principal.name = row[0].c_str();
  listing.principal.role = RoleOf(row[1].c_str());
  listing.principal.client_ids = ReadTexts(row[2]);
  listing.certificate_names = ReadTexts(row[3]);
  Quota& quota = listing.principal.quota;
  quota.calls_in_flight_max = ReadMaybeNumber(row[4]);
  quota.calls_per_second_max = ReadMaybeNumber(row[5]);
  quota.live_keys_max = ReadMaybeNumber(row[6]);
  quota.stored_bytes_max = ReadMaybeNumber(row[7]);
  listing.created_at = absl::FromUnixMicros(row[8].as<int64_t>());
  return listing;
}

TokenListing ReadToken(const pqxx::row& row) {
  TokenListing listing;
  listing.id = row[0].c_str();
  listing.principal = row[1].c_str();
  listing.created_at = absl::FromUnixMicros(row[2].as<int64_t>());
  listing.expires_at = ReadMaybeTime(row[3]);
  listing.last_used_at = ReadMaybeTime(row[4]);
  listing.state = ReadTokenState(row[5].c_str());
  return listing;
}

absl::string_view Outcome(const pqxx::result& rows) {
  return absl::string_view(rows[0][0].c_str());
}

absl::Status UnknownPrincipal() {
  return absl::NotFoundError("there is no principal of that name");
}

absl::Status UnknownOutcome() {
  return absl::InternalError(
      "the database answers what this version does not know; use the `dedupe`"
      " of the release that migrated it");
}

// Whether this login may go on, and has to act as the owner for it.
absl::StatusOr<bool> HasToActAsOwner(const pqxx::row& rights) {
  if (rights[0].as<int>() != kAdministratorFunctions) {
    return absl::FailedPreconditionError(
        "the database has no principals and tokens yet; run `dedupe migrate`");
  }
  if (rights[1].as<bool>()) return false;
  if (rights[2].as<bool>()) return true;
  return absl::PermissionDeniedError(absl::StrCat(
      "the database's role \"", rights[3].c_str(),
      "\" may not manage principals and tokens: that takes a member of"
      " dedupe_migrator, as for `dedupe migrate`"));
}

// What postgres_error.h gives, as a person needs it.
absl::Status Explain(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(
          absl::StrCat("the database refuses these values, perhaps because they"
                       " are no UTF-8: ",
                       status.message()));
    case absl::StatusCode::kAborted:
      return absl::AbortedError(absl::StrCat(
          "another administrator is at work; try again: ", status.message()));
    default:
      return status;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<AccessAdmin>> AccessAdmin::Open(
    const std::string& database_url) {
  auto connection = Connection::Open(database_url);
  if (!connection.ok()) return connection.status();
  return std::unique_ptr<AccessAdmin>(new AccessAdmin(*std::move(connection)));
}

absl::StatusOr<pqxx::result> AccessAdmin::Run(const char* statement,
                                              const SqlParameters& parameters) {
  pqxx::result rows;
  absl::Status refused;
  const absl::Status status =
      connection_->Transact([&](pqxx::work& transaction) {
        const auto as_owner =
            HasToActAsOwner(transaction.exec1(kAdministratorRights));
        refused = as_owner.status();
        if (!as_owner.ok()) return;
        // For this transaction alone: a pooler may give the session to others.
        if (*as_owner) transaction.exec0(kActAsOwner);
        rows = transaction.exec_params(
            statement, pqxx::prepare::make_dynamic_params(parameters));
      });
  if (!refused.ok()) return refused;
  if (!status.ok()) return Explain(status);
  return rows;
}

absl::StatusOr<PutPrincipalOutcome> AccessAdmin::PutPrincipal(
    const Principal& principal,
    const std::vector<std::string>& certificate_names) {
  absl::Status status = CheckPrincipal(principal, certificate_names);
  if (!status.ok()) return status;
  const Quota& quota = principal.quota;
  const auto rows = Run(
      kPutPrincipal,
      {principal.name, RoleName(principal.role), Array(principal.client_ids),
       Array(WithoutCase(certificate_names)),
       MaybeNumber(quota.calls_in_flight_max),
       MaybeNumber(quota.calls_per_second_max),
       MaybeNumber(quota.live_keys_max), MaybeNumber(quota.stored_bytes_max)});
  if (!rows.ok()) return rows.status();
  if (Outcome(*rows) == "created") return PutPrincipalOutcome::kCreated;
  if (Outcome(*rows) == "replaced") return PutPrincipalOutcome::kReplaced;
  if (Outcome(*rows) == "certificate_taken") {
    return absl::AlreadyExistsError(
        "one of the certificate names is another principal's;"
        " `dedupe principal list` shows whose");
  }
  if (Outcome(*rows) == "too_many") {
    return absl::FailedPreconditionError(
        "there are 10000 principals, or their client ids and certificate names"
        " together have more than 16 MiB: as much as servers hold");
  }
  return UnknownOutcome();
}

absl::Status AccessAdmin::RemovePrincipal(const std::string& name) {
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  const auto rows = Run(kRemovePrincipal, {name});
  if (!rows.ok()) return rows.status();
  if (Outcome(*rows) == "removed") return absl::OkStatus();
  return Outcome(*rows) == "unknown" ? UnknownPrincipal() : UnknownOutcome();
}

absl::StatusOr<std::vector<PrincipalListing>> AccessAdmin::ListPrincipals() {
  const auto rows = Run(kListPrincipals, {});
  if (!rows.ok()) return rows.status();
  std::vector<PrincipalListing> listings;
  for (const pqxx::row& row : *rows) listings.push_back(ReadPrincipal(row));
  return listings;
}

absl::StatusOr<std::optional<absl::Time>> AccessAdmin::CreateToken(
    const std::string& principal, const MintedToken& token,
    std::optional<absl::Duration> lifetime) {
  absl::Status status = CheckName(principal);
  if (lifetime.has_value() &&
      (*lifetime < kTokenLifetimeMin || *lifetime > kTokenLifetimeMax)) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        "a token lives for ", absl::FormatDuration(kTokenLifetimeMin), " to ",
        absl::FormatDuration(kTokenLifetimeMax))));
  }
  if (!status.ok()) return status;
  std::optional<int64_t> lifetime_us;
  if (lifetime.has_value()) lifetime_us = absl::ToInt64Microseconds(*lifetime);
  const auto rows = Run(
      kCreateToken, {principal, token.id, absl::BytesToHexString(token.sha256),
                     MaybeNumber(lifetime_us)});
  if (!rows.ok()) return rows.status();
  if (Outcome(*rows) == "created") return ReadMaybeTime((*rows)[0][1]);
  if (Outcome(*rows) == "principal_unknown") return UnknownPrincipal();
  if (Outcome(*rows) == "taken") {
    return absl::AlreadyExistsError("there is a token of that id");
  }
  if (Outcome(*rows) == "too_many") {
    return absl::FailedPreconditionError(
        "the principal has two live tokens, which is what a rotation needs;"
        " `dedupe token list` shows them, `dedupe token revoke` ends one");
  }
  return UnknownOutcome();
}

absl::Status AccessAdmin::RevokeToken(const std::string& id) {
  if (absl::Status status = CheckTokenId(id); !status.ok()) return status;
  const auto rows = Run(kRevokeToken, {id});
  if (!rows.ok()) return rows.status();
  if (Outcome(*rows) == "revoked") return absl::OkStatus();
  if (Outcome(*rows) == "already_revoked") {
    return absl::FailedPreconditionError("that token was revoked before");
  }
  return Outcome(*rows) == "unknown"
             ? absl::NotFoundError("there is no token of that id")
             : UnknownOutcome();
}

absl::StatusOr<std::vector<TokenListing>> AccessAdmin::ListTokens(
    const std::optional<std::string>& principal) {
  if (principal.has_value()) {
    if (absl::Status s = CheckName(*principal); !s.ok()) return s;
  }
  const auto rows = Run(kListTokens, {principal.value_or("")});
  if (!rows.ok()) return rows.status();
  std::vector<TokenListing> listings;
  for (const pqxx::row& row : *rows) listings.push_back(ReadToken(row));
  if (!listings.empty() || !principal.has_value()) return listings;
  // None of it, or no such principal?
  const auto principals = ListPrincipals();
  if (!principals.ok()) return principals.status();
  for (const PrincipalListing& listing : *principals) {
    if (listing.principal.name == *principal) return listings;
  }
  return UnknownPrincipal();
}

}  // namespace dedupe
