// Makes certificates, keys and revocation lists for tests, as PEM.
#ifndef DEDUPE_TESTS_SUPPORT_CERTIFICATES_H_
#define DEDUPE_TESTS_SUPPORT_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dedupe::testing {

enum class KeyType { kEcP256, kRsa2048, kRsa512 };

struct CertificateOptions {
  std::string common_name = "localhost";
  // In OpenSSL's words, such as `DNS:localhost`, `URI:spiffe://prod/shop`.
  std::vector<std::string> alternative_names = {"DNS:localhost",
                                                "IP:127.0.0.1"};
  // In OpenSSL's words; empty: none.
  std::string extended_key_usage = "serverAuth,clientAuth";
  absl::Time not_before = absl::Now() - absl::Hours(1);
  absl::Time not_after = absl::Now() + absl::Hours(24 * 30);
  KeyType key_type = KeyType::kEcP256;
};

struct CertificateAndKey {
  std::string certificate_pem;
  std::string key_pem;
  // As LoadedCertificate has it.
  std::string serial;
};

struct CrlOptions {
  absl::Time this_update = absl::Now() - absl::Hours(1);
  absl::Time next_update = absl::Now() + absl::Hours(24);
  // An extension that only lists of changes have, and that is critical.
  bool is_delta = false;
};

// With a passphrase.
std::string EncryptedKeyPem(const std::string& key_pem);

// A certification authority. Serials are random. Ends the process if OpenSSL
// fails. Not thread-safe.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& common_name);
  ~CertificateAuthority();
  CertificateAuthority(CertificateAuthority&&) noexcept;
  CertificateAuthority& operator=(CertificateAuthority&&) noexcept;

  // Of itself.
  const std::string& certificate_pem() const;

  CertificateAndKey Issue(const CertificateOptions& options = {});
  // Below this one.
  CertificateAuthority IssueAuthority(const std::string& common_name);
  std::string Crl(const std::vector<std::string>& revoked_certificate_pems,
                  const CrlOptions& options = {});

 private:
  struct Parts;

  explicit CertificateAuthority(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_CERTIFICATES_H_
