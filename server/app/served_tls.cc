#include "server/app/served_tls.h"

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "server/service/reason.h"
#include "server/tls/peer_names.h"

namespace dedupe {

absl::StatusOr<std::unique_ptr<ServedTls>> ServedTls::Open(
    const Config::Tls& config) {
  const auto first = LoadCertificate(config.files);
  if (!first.ok()) return first.status();
  return absl::WrapUnique(new ServedTls(config, *first));
}

ServedTls::ServedTls(const Config::Tls& config, const LoadedCertificate& first)
    : credentials_(first, config.client_certificates),
      watch_(config.files, first, credentials_, revocation_,
             {.interval = config.reload_interval}) {}

absl::StatusOr<std::vector<std::string>> ServedTls::ReadPeer(
    const grpc::AuthContext& connection) {
  const std::string certificates = PeerCertificates(connection);
  if (certificates.empty()) return std::vector<std::string>();
  if (revocation_.Judge(certificates, absl::Now()) !=
      CertificateVerdict::kGood) {
    return Refusal(Reason::kCredentialsRefused);
  }
  return PeerNames(connection);
}

}  // namespace dedupe
