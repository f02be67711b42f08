#include "server/app/access_commands.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "server/app/command_words.h"
#include "server/app/config.h"
#include "server/app/text_table.h"
#include "server/service/access.h"
#include "server/service/token.h"
#include "server/store/access_admin.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

constexpr char kPrincipalUsage[] =
    "write `dedupe principal set NAME --role=ROLE --client-ids=LIST`,"
    " `dedupe principal list` or `dedupe principal remove NAME`;"
    " `dedupe help` shows more";
constexpr char kTokenUsage[] =
    "write `dedupe token create PRINCIPAL`, `dedupe token list [PRINCIPAL]` or"
    " `dedupe token revoke ID`; `dedupe help` shows more";

const std::vector<std::string>& PrincipalOptions() {
  static const auto& options =
      *new std::vector<std::string>{"--role",
                                    "--client-ids",
                                    "--certificates",
                                    "--calls-in-flight-max",
                                    "--calls-per-second-max",
                                    "--live-keys-max",
                                    "--stored-bytes-max"};
  return options;
}

int Complain(const absl::Status& status, int exit_code) {
  std::cerr << "dedupe: " << status.message() << "\n";
  return exit_code;
}

int Misused(absl::string_view usage) {
  return Complain(absl::InvalidArgumentError(usage), kExitUsage);
}

// As it may be shown: whoever mixes up a token and its id, or a name and a
// connection string, need not find it in a log.
std::string Shown(absl::string_view word) {
  const bool may_be_secret =
      (absl::StartsWith(word, "dedupe_") && absl::StrContains(word, '.')) ||
      absl::StartsWith(word, "postgres") || absl::StrContains(word, "password");
  return absl::StrCat("\"", may_be_secret ? "..." : word, "\"");
}

std::string Shown(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string Shown(std::optional<absl::Time> time, absl::string_view otherwise) {
  return time.has_value() ? Shown(*time) : std::string(otherwise);
}

absl::string_view Shown(TokenState state) {
  switch (state) {
    case TokenState::kLive:
      return "live";
    case TokenState::kExpired:
      return "expired";
    case TokenState::kRevoked:
      return "revoked";
  }
  return "";
}

std::string Shown(const Quota& quota) {
  std::vector<std::string> parts;
  const auto add = [&parts](absl::string_view name,
                            std::optional<int64_t> most) {
    if (most.has_value()) parts.push_back(absl::StrCat(name, "=", *most));
  };
  add("calls-in-flight-max", quota.calls_in_flight_max);
  add("calls-per-second-max", quota.calls_per_second_max);
  add("live-keys-max", quota.live_keys_max);
  add("stored-bytes-max", quota.stored_bytes_max);
  return parts.empty() ? "none" : absl::StrJoin(parts, ",");
}

// Commas part them; an empty list has none.
std::vector<std::string> SplitList(const std::optional<std::string>& list) {
  if (!list.has_value() || list->empty()) return {};
  return absl::StrSplit(*list, ',');
}

absl::StatusOr<Role> ParseRole(const std::optional<std::string>& name) {
  const Role role = RoleOf(name.value_or(""));
  if (role != Role::kUnknown) return role;
  return absl::InvalidArgumentError("--role is caller, reader or admin");
}

absl::StatusOr<std::optional<int64_t>> ParseQuota(const CommandWords& words,
                                                  absl::string_view option) {
  const auto text = words.Find(option);
  if (!text.has_value()) return std::nullopt;
  int64_t quota = 0;
  if (absl::SimpleAtoi(*text, &quota)) return quota;
  return absl::InvalidArgumentError(absl::StrCat(option, " is a number"));
}

absl::StatusOr<Principal> ParsePrincipal(const CommandWords& words) {
  Principal principal;
  principal.name = *words.name;
  const auto role = ParseRole(words.Find("--role"));
  if (!role.ok()) return role.status();
  principal.role = *role;
  principal.client_ids = SplitList(words.Find("--client-ids"));
  if (principal.client_ids.empty()) {
    return absl::InvalidArgumentError(
        "--client-ids names the client ids, parted by commas; one that ends in"
        " * is all that begin so, such as --client-ids='shop/*,acme'");
  }
  Quota& quota = principal.quota;
  const std::pair<const char*, std::optional<int64_t>*> quotas[] = {
      {"--calls-in-flight-max", &quota.calls_in_flight_max},
      {"--calls-per-second-max", &quota.calls_per_second_max},
      {"--live-keys-max", &quota.live_keys_max},
      {"--stored-bytes-max", &quota.stored_bytes_max},
  };
  for (const auto& [option, member] : quotas) {
    auto parsed = ParseQuota(words, option);
    if (!parsed.ok()) return parsed.status();
    *member = *parsed;
  }
  return principal;
}

absl::StatusOr<std::optional<absl::Duration>> ParseLifetime(
    const CommandWords& words) {
  const auto text = words.Find("--expires-in");
  if (!text.has_value()) return std::nullopt;
  absl::Duration lifetime;
  if (absl::ParseDuration(*text, &lifetime)) return lifetime;
  return absl::InvalidArgumentError("--expires-in is a time such as 720h");
}

// What a command does once the database is at hand. OK, or why not.
using Action = absl::FunctionRef<absl::Status(AccessAdmin&)>;

int RunOnDatabase(const CommandWords& words, Action action) {
  const auto config = LoadConfig(words.settings);
  if (!config.ok()) return Complain(config.status(), kExitUsage);
  ConfigureLog(config->log_format, config->log_level);
  const auto admin = AccessAdmin::Open(config->database_url);
  if (!admin.ok()) return Complain(admin.status(), kExitFailure);
  const absl::Status status = action(**admin);
  if (status.ok()) return 0;
  // What the database would refuse is a mistake of the command line too.
  return Complain(status,
                  absl::IsInvalidArgument(status) ? kExitUsage : kExitFailure);
}

// The same sentence with the name that it is about.
absl::Status About(absl::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(Shown(name), ": ", status.message()));
}

int SetPrincipal(const CommandWords& words) {
  const auto principal = ParsePrincipal(words);
  if (!principal.ok()) return Complain(principal.status(), kExitUsage);
  const auto certificates = SplitList(words.Find("--certificates"));
  return RunOnDatabase(words, [&](AccessAdmin& admin) {
    const auto outcome = admin.PutPrincipal(*principal, certificates);
    if (!outcome.ok()) return About(principal->name, outcome.status());
    std::cout << "principal " << Shown(principal->name)
              << (*outcome == PutPrincipalOutcome::kCreated ? " created\n"
                                                            : " replaced\n");
    return absl::OkStatus();
  });
}

int ListPrincipals(const CommandWords& words) {
  return RunOnDatabase(words, [&](AccessAdmin& admin) {
    const auto listings = admin.ListPrincipals();
    if (!listings.ok()) return listings.status();
    TextTable table(
        {"NAME", "ROLE", "CLIENT-IDS", "CERTIFICATES", "LIMITS", "CREATED"});
    for (const PrincipalListing& listing : *listings) {
      const Principal& principal = listing.principal;
      table.Add({principal.name, RoleName(principal.role),
                 absl::StrJoin(principal.client_ids, ","),
                 listing.certificate_names.empty()
                     ? "none"
                     : absl::StrJoin(listing.certificate_names, ","),
                 Shown(principal.quota), Shown(listing.created_at)});
    }
    std::cout << table.Text();
    return absl::OkStatus();
  });
}

int RemovePrincipal(const CommandWords& words) {
  return RunOnDatabase(words, [&](AccessAdmin& admin) {
    const absl::Status status = admin.RemovePrincipal(*words.name);
    if (!status.ok()) return About(*words.name, status);
    std::cout << "principal " << Shown(*words.name)
              << " removed, with its tokens\n";
    return absl::OkStatus();
  });
}

// The token goes to whoever reads standard output, or to nobody: one that
// nobody has seen must not stay.
absl::Status ShowToken(AccessAdmin& admin, const MintedToken& token,
                       std::optional<absl::Time> expires_at) {
  std::cout << token.text << "\n" << std::flush;
  if (!std::cout.good()) {
    const absl::Status revoked = admin.RevokeToken(token.id);
    return absl::DataLossError(absl::StrCat(
        "the token cannot be written to standard output; token ", token.id,
        revoked.ok() ? " was revoked" : " stays: revoke it"));
  }
  std::cerr << "dedupe: token " << token.id
            << (expires_at.has_value()
                    ? absl::StrCat(" expires at ", Shown(*expires_at))
                    : " does not expire")
            << "; it is shown this once\n";
  return absl::OkStatus();
}

int CreateToken(const CommandWords& words) {
  const auto lifetime = ParseLifetime(words);
  if (!lifetime.ok()) return Complain(lifetime.status(), kExitUsage);
  return RunOnDatabase(words, [&](AccessAdmin& admin) {
    const auto token = MintToken();
    if (!token.ok()) return token.status();
    const auto expires_at = admin.CreateToken(*words.name, *token, *lifetime);
    if (absl::IsUnavailable(expires_at.status())) {
      return absl::UnavailableError(absl::StrCat(
          expires_at.status().message(),
          "; if `dedupe token list` shows token ", token->id, ", revoke it"));
    }
    if (!expires_at.ok()) return About(*words.name, expires_at.status());
    return ShowToken(admin, *token, *expires_at);
  });
}

int ListTokens(const CommandWords& words) {
  return RunOnDatabase(words, [&](AccessAdmin& admin) {
    const auto listings = admin.ListTokens(words.name);
    if (!listings.ok()) {
      return words.name.has_value() ? About(*words.name, listings.status())
                                    : listings.status();
    }
    TextTable table(
        {"ID", "PRINCIPAL", "CREATED", "EXPIRES", "LAST-USED", "STATE"});
    for (const TokenListing& listing : *listings) {
      table.Add({listing.id, listing.principal, Shown(listing.created_at),
                 Shown(listing.expires_at, "never"),
                 Shown(listing.last_used_at, "never"),
                 std::string(Shown(listing.state))});
    }
    std::cout << table.Text();
    return absl::OkStatus();
  });
}

int RevokeToken(const CommandWords& words) {
  return RunOnDatabase(words, [&](AccessAdmin& admin) {
    const absl::Status status = admin.RevokeToken(*words.name);
    if (!status.ok()) return status;
    std::cout << "token " << *words.name << " revoked\n";
    return absl::OkStatus();
  });
}

}  // namespace

int RunPrincipalCommand(const std::vector<std::string>& words) {
  const bool sets = !words.empty() && words.front() == "set";
  const auto parsed = ParseCommandWords(
      words, sets ? PrincipalOptions() : std::vector<std::string>());
  if (!parsed.ok()) return Complain(parsed.status(), kExitUsage);
  const bool has_name = parsed->name.has_value();
  if (parsed->verb == "set" && has_name) return SetPrincipal(*parsed);
  if (parsed->verb == "list" && !has_name) return ListPrincipals(*parsed);
  if (parsed->verb == "remove" && has_name) return RemovePrincipal(*parsed);
  return Misused(kPrincipalUsage);
}

int RunTokenCommand(const std::vector<std::string>& words) {
  const bool creates = !words.empty() && words.front() == "create";
  const auto parsed = ParseCommandWords(
      words, creates ? std::vector<std::string>{"--expires-in"}
                     : std::vector<std::string>());
  if (!parsed.ok()) return Complain(parsed.status(), kExitUsage);
  const bool has_name = parsed->name.has_value();
  if (parsed->verb == "create" && has_name) return CreateToken(*parsed);
  if (parsed->verb == "list") return ListTokens(*parsed);
  if (parsed->verb == "revoke" && has_name) return RevokeToken(*parsed);
  return Misused(kTokenUsage);
}

std::string AccessCommandsHelp() {
  return "  dedupe principal set NAME --role=caller|reader|admin\n"
         "      --client-ids='shop/*,acme'"
         " [--certificates='uri:spiffe://prod/shop']\n"
         "      [--calls-in-flight-max=N] [--calls-per-second-max=N]\n"
         "      [--live-keys-max=N] [--stored-bytes-max=N] [SETTING...]\n"
         "                               creates a principal, or replaces it "
         "as a whole\n"
         "  dedupe principal list [SETTING...]\n"
         "  dedupe principal remove NAME [SETTING...]\n"
         "                               with its tokens, at once\n"
         "  dedupe token create PRINCIPAL [--expires-in=720h] [SETTING...]\n"
         "                               shows it this once; two may be live, "
         "for rotation\n"
         "  dedupe token list [PRINCIPAL] [SETTING...]\n"
         "  dedupe token revoke ID [SETTING...]\n";
}

}  // namespace dedupe
