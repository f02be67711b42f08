// Judges whether what is in the certificate files is fit to be served. Nothing
// reaches gRPC that was not judged here first.
#ifndef DEDUPE_SERVER_TLS_LOADED_CERTIFICATE_H_
#define DEDUPE_SERVER_TLS_LOADED_CERTIFICATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/tls/certificate_files.h"

namespace dedupe {

// Contents that were found fit.
struct LoadedCertificate {
  std::string certificate_pem;
  std::string key_pem;
  std::string client_ca_pem;
  std::string client_crl_pem;
  // Of the server's own certificate.
  absl::Time not_after = absl::InfiniteFuture();
  // In hexadecimal digits, as `openssl x509 -serial` shows it.
  std::string serial;
  // When the first of the lists of revoked certificates is out of date; they
  // are used all the same.
  absl::Time crl_next_update = absl::InfiniteFuture();
  std::string digest;
  // What is not as it should be and does not stand in the way. Sentences
  // without key material.
  std::vector<std::string> warnings;
};

// FAILED_PRECONDITION: not fit to be served at `now`; the message names the
// setting and the file and what is wrong, and shows nothing of the key.
absl::StatusOr<LoadedCertificate> JudgeCertificate(
    const CertificateContents& contents, absl::Time now);

// Both of them, now.
absl::StatusOr<LoadedCertificate> LoadCertificate(
    const CertificateFiles& files);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_LOADED_CERTIFICATE_H_
