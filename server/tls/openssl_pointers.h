// OpenSSL's objects, owned.
#ifndef DEDUPE_SERVER_TLS_OPENSSL_POINTERS_H_
#define DEDUPE_SERVER_TLS_OPENSSL_POINTERS_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/strings/string_view.h"

namespace dedupe {

template <auto kFree>
struct OpensslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioPointer = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;
using KeyPointer = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using CertificatePointer = std::unique_ptr<X509, OpensslFree<X509_free>>;
using CrlPointer = std::unique_ptr<X509_CRL, OpensslFree<X509_CRL_free>>;
using SslContextPointer = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;

// Reads `text`, which must outlive it.
inline BioPointer BioOf(absl::string_view text) {
  return BioPointer(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_OPENSSL_POINTERS_H_
