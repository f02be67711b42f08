#include "server/rpc/authenticator.h"

#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "server/service/reason.h"
#include "server/service/token.h"

namespace dedupe {
namespace {

constexpr char kHeader[] = "authorization";

Caller Everybody() {
  Principal principal;
  principal.name = "everybody";
  principal.role = Role::kAdmin;
  principal.client_ids = {"*"};
  return {std::make_shared<const Principal>(std::move(principal)),
          std::make_shared<QuotaUse>()};
}

}  // namespace

Authenticator::Authenticator() : everybody_(Everybody()) {}

Authenticator::Authenticator(const AccessWatch& access, ReadPeer read_peer)
    : access_(&access), read_peer_(std::move(read_peer)) {}

absl::StatusOr<Caller> Authenticator::Authenticate(
    const grpc::ServerContextBase& context) const {
  if (access_ == nullptr) return everybody_;
  const auto [first, last] = context.client_metadata().equal_range(kHeader);
  if (first != last) {
    // Two would be read differently by whoever is in between.
    if (std::next(first) != last) return Refusal(Reason::kCredentialsRefused);
    const auto token =
        ParseBearer({first->second.data(), first->second.size()});
    if (!token.has_value()) return Refusal(Reason::kCredentialsRefused);
    return access_->FindByToken(*token);
  }
  const std::shared_ptr<const grpc::AuthContext> connection =
      context.auth_context();
  if (connection == nullptr) return Refusal(Reason::kCredentialsRefused);
  auto names = read_peer_(*connection);
  if (!names.ok()) return names.status();
  if (names->empty()) return Refusal(Reason::kCredentialsRefused);
  return access_->FindByCertificate(*names);
}

}  // namespace dedupe
