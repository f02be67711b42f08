// Of gRPC's two ways to change certificates, the other, a certificate provider,
// drops the pair in use before it has tried the new one: a bad one then refuses
// every connection. Here core asks for a new pair when a connection arrives,
// and keeps the old one if it cannot use the new.
//
// The C++ library has no name for this way, so that a subclass of
// grpc::ServerCredentials calls core. Its virtuals are those of gRPC 1.51; in
// later versions the superclass is given the result of MakeCoreCredentials()
// and does the rest. Nothing outside of this file depends on that.
#include "server/tls/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "server/telemetry/log.h"

namespace dedupe {
namespace {

// The texts that core needs.
struct Pems {
  std::string certificate;
  std::string key;
  std::string client_ca;
};

std::shared_ptr<const Pems> PemsOf(const LoadedCertificate& loaded) {
  return std::make_shared<const Pems>(
      Pems{loaded.certificate_pem, loaded.key_pem, loaded.client_ca_pem});
}

grpc_ssl_client_certificate_request_type RequestType(
    bool has_client_ca, ClientCertificates client_certificates) {
  if (!has_client_ca) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return client_certificates == ClientCertificates::kRequire
             ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

class TlsCredentials::Current {
 public:
  explicit Current(std::shared_ptr<const Pems> first)
      : has_client_ca_(!first->client_ca.empty()), pems_(std::move(first)) {}

  bool has_client_ca() const { return has_client_ca_; }

  std::shared_ptr<const Pems> Get() {
    absl::MutexLock lock(&mutex_);
    return pems_;
  }

  void Set(std::shared_ptr<const Pems> pems) {
    absl::MutexLock lock(&mutex_);
    pems_ = std::move(pems);
  }

 private:
  const bool has_client_ca_;
  absl::Mutex mutex_;
  std::shared_ptr<const Pems> pems_ ABSL_GUARDED_BY(mutex_);
};

// gRPC calls for one port at a time, and holds a lock while it does.
struct TlsCredentials::Port {
  Current* current = nullptr;
  // What core was given last.
  std::shared_ptr<const Pems> given;

  grpc_ssl_certificate_config_reload_status Fetch(
      grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const Pems> pems = current->Get();
    if (pems == given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {pems->key.c_str(),
                                             pems->certificate.c_str()};
    // Core insists on CAs, and does not use them if it asks nobody for a
    // certificate: then any certificates do.
    *config = grpc_ssl_server_certificate_config_create(
        pems->client_ca.empty() ? pems->certificate.c_str()
                                : pems->client_ca.c_str(),
        &pair, 1);
    given = std::move(pems);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  static grpc_ssl_certificate_config_reload_status FetchFor(
      void* port, grpc_ssl_server_certificate_config** config) {
    return static_cast<Port*>(port)->Fetch(config);
  }
};

namespace {

using Fetch = grpc_ssl_server_certificate_config_callback;

// `port` is what `fetch` is called with.
grpc_server_credentials* MakeCoreCredentials(
    grpc_ssl_client_certificate_request_type request_type, Fetch fetch,
    void* port) {
  return grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(
          request_type, fetch, port));
}

class PortCredentials final : public grpc::ServerCredentials {
 public:
  PortCredentials(grpc_ssl_client_certificate_request_type request_type,
                  Fetch fetch, void* port)
      : core_(MakeCoreCredentials(request_type, fetch, port)) {}
  ~PortCredentials() override { grpc_server_credentials_release(core_); }
  PortCredentials(const PortCredentials&) = delete;
  PortCredentials& operator=(const PortCredentials&) = delete;

  // Callers are authenticated by the calls' own code. To go on without a
  // processor that somebody relies on would let everybody in.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    Log(Severity::kError, "auth_metadata_processor_unsupported");
    std::abort();
  }

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), core_);
  }

  grpc_server_credentials* const core_;
};

}  // namespace

TlsCredentials::TlsCredentials(const LoadedCertificate& first,
                               ClientCertificates client_certificates)
    : current_(std::make_unique<Current>(PemsOf(first))),
      client_certificates_(client_certificates) {}

TlsCredentials::~TlsCredentials() = default;

std::shared_ptr<grpc::ServerCredentials> TlsCredentials::MakeForPort() {
  absl::MutexLock lock(&mutex_);
  ports_.push_back(std::make_unique<Port>());
  ports_.back()->current = current_.get();
  return std::make_shared<PortCredentials>(
      RequestType(current_->has_client_ca(), client_certificates_),
      Port::FetchFor, ports_.back().get());
}

void TlsCredentials::Replace(const LoadedCertificate& next) {
  current_->Set(PemsOf(next));
}

}  // namespace dedupe
