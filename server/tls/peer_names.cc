#include "server/tls/peer_names.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dedupe {
namespace {

absl::string_view ViewOf(const grpc::string_ref& text) {
  return absl::string_view(text.data(), text.size());
}

// gRPC calls every TLS peer authenticated that has a certificate at all, which
// by our credentials is one that it has verified.
bool HasCertificate(const grpc::AuthContext& context) {
  const auto transport =
      context.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return transport.size() == 1 &&
         ViewOf(transport.front()) == GRPC_SSL_TRANSPORT_SECURITY_TYPE &&
         context.IsPeerAuthenticated() &&
         !context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME).empty();
}

struct Kind {
  const char* property;
  const char* prefix;
};

// gRPC gives a SPIFFE id only if it is the certificate's one URI and of the
// right form.
constexpr Kind kKinds[] = {
    {GRPC_PEER_SPIFFE_ID_PROPERTY_NAME, "uri:"},
    {GRPC_PEER_URI_PROPERTY_NAME, "uri:"},
    {GRPC_PEER_DNS_PROPERTY_NAME, "dns:"},
};

}  // namespace

std::vector<std::string> PeerNames(const grpc::AuthContext& context) {
  std::vector<std::string> names;
  if (!HasCertificate(context)) return names;
  for (const Kind& kind : kKinds) {
    for (const auto& value : context.FindPropertyValues(kind.property)) {
      std::string name = absl::StrCat(kind.prefix, ViewOf(value));
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

std::string PeerCertificates(const grpc::AuthContext& context) {
  std::string pem;
  if (!HasCertificate(context)) return pem;
  for (const char* property : {GRPC_X509_PEM_CERT_PROPERTY_NAME,
                               GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
    for (const auto& value : context.FindPropertyValues(property)) {
      absl::StrAppend(&pem, ViewOf(value));
    }
  }
  return pem;
}

}  // namespace dedupe
