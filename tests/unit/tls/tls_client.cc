#include "tests/unit/tls/tls_client.h"

#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/tls/openssl_pointers.h"
#include "server/tls/pem.h"

namespace dedupe::testing {
namespace {

constexpr int kPatienceSeconds = 5;

using SslPointer = std::unique_ptr<SSL, OpensslFree<SSL_free>>;

int OpenConnection(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  (void)connect(descriptor, reinterpret_cast<sockaddr*>(&address),
                sizeof(address));
  return descriptor;
}

void LimitWaits(int descriptor) {
  const timeval limit = {kPatienceSeconds, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

SslContextPointer ContextOf(const Caller& caller) {
  SslContextPointer context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const auto authorities = *ParseCertificates(caller.ca_pem);
  for (const CertificatePointer& authority : authorities) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get());
  }
  if (!caller.own.key_pem.empty()) {
    const auto chain = *ParseCertificates(caller.own.certificate_pem);
    SSL_CTX_use_certificate(context.get(), chain[0].get());
    for (size_t i = 1; i < chain.size(); ++i) {
      SSL_CTX_add1_chain_cert(context.get(), chain[i].get());
    }
    const KeyPointer key = *ParseKey(caller.own.key_pem);
    SSL_CTX_use_PrivateKey(context.get(), key.get());
  }
  if (caller.tls_version != 0) {
    // The level at which OpenSSL itself still speaks TLS 1.1.
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_min_proto_version(context.get(), caller.tls_version);
    SSL_CTX_set_max_proto_version(context.get(), caller.tls_version);
  }
  if (!caller.ciphers.empty()) {
    SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(context.get(), caller.ciphers.c_str());
  }
  return context;
}

absl::Status Failed(const char* step) {
  return absl::UnavailableError(absl::StrCat(step, ": ", TakeOpensslError()));
}

absl::StatusOr<Handshake> Shake(SSL* ssl) {
  ERR_clear_error();
  if (SSL_connect(ssl) != 1) return Failed("connect");
  // In TLS 1.3 the server tells only now what it thinks of our certificate.
  constexpr char kPreface[] =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
  if (SSL_write(ssl, kPreface, sizeof(kPreface) - 1) <= 0) {
    return Failed("write");
  }
  char settings = 0;
  if (SSL_read(ssl, &settings, 1) != 1) return Failed("read");
  const CertificatePointer server(SSL_get1_peer_certificate(ssl));
  return Handshake{SerialOf(server.get()), SSL_get_version(ssl),
                   SSL_get_cipher_name(ssl)};
}

CallResult CallWith(
    int port, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, "localhost");
  grpc::GenericStub stub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", port), credentials, arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(kPatienceSeconds));
  const grpc::Slice text("request");
  const grpc::ByteBuffer request(&text, 1);
  grpc::ByteBuffer response;
  CallResult result;
  absl::Notification done;
  stub.UnaryCall(&context, "/peer/Echo", grpc::StubOptions(), &request,
                 &response, [&](const grpc::Status& status) {
                   result.status = status;
                   done.Notify();
                 });
  done.WaitForNotification();
  std::vector<grpc::Slice> slices;
  if (result.status.ok()) (void)response.Dump(&slices);
  for (const grpc::Slice& slice : slices) {
    result.reply.append(reinterpret_cast<const char*>(slice.begin()),
                        slice.size());
  }
  return result;
}

}  // namespace

absl::StatusOr<Handshake> Connect(int port, const Caller& caller) {
  return ConnectOver(OpenConnection(port), caller);
}

absl::StatusOr<Handshake> ConnectOver(int descriptor, const Caller& caller) {
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  LimitWaits(descriptor);
  // OpenSSL writes to connections that the server may have closed.
  std::signal(SIGPIPE, SIG_IGN);
  const SslContextPointer context = ContextOf(caller);
  const SslPointer ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), descriptor);
  SSL_set_tlsext_host_name(ssl.get(), "localhost");
  SSL_set1_host(ssl.get(), "localhost");
  const unsigned char h2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), h2, sizeof(h2));
  return Shake(ssl.get());
}

absl::StatusOr<std::string> SendPlain(int port, absl::string_view bytes) {
  const int descriptor = OpenConnection(port);
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  LimitWaits(descriptor);
  send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string answer;
  char part[512];
  for (;;) {
    const ssize_t size = recv(descriptor, part, sizeof(part), 0);
    if (size > 0) {
      answer.append(part, static_cast<size_t>(size));
    } else if (size == 0 || errno == ECONNRESET) {
      return answer;
    } else if (errno != EINTR) {
      return absl::UnavailableError("the connection stays open");
    }
  }
}

CallResult Call(int port, const Caller& caller) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = caller.ca_pem;
  options.pem_private_key = caller.own.key_pem;
  options.pem_cert_chain = caller.own.certificate_pem;
  return CallWith(port, grpc::SslCredentials(options));
}

CallResult CallPlain(int port) {
  return CallWith(port, grpc::InsecureChannelCredentials());
}

}  // namespace dedupe::testing
