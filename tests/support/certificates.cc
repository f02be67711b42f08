#include "tests/support/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "server/tls/openssl_pointers.h"
#include "server/tls/pem.h"

namespace dedupe::testing {
namespace {

// OpenSSL's functions return 1, a size or a pointer when they succeed.
template <typename T>
T Must(T result) {
  if (result) return result;
  ERR_print_errors_fp(stderr);
  std::abort();
}

template <typename Write>
std::string PemBy(Write write) {
  const BioPointer bio(Must(BIO_new(BIO_s_mem())));
  Must(write(bio.get()));
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

std::string PemOf(X509* certificate) {
  return PemBy([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string PemOf(EVP_PKEY* key) {
  return PemBy([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr,
                                    nullptr);
  });
}

KeyPointer NewKey(KeyType type) {
  switch (type) {
    case KeyType::kEcP256:
      return KeyPointer(Must(EVP_EC_gen("P-256")));
    case KeyType::kRsa2048:
      return KeyPointer(Must(EVP_RSA_gen(2048)));
    case KeyType::kRsa512:
      break;
  }
  return KeyPointer(Must(EVP_RSA_gen(512)));
}

void AddExtension(X509* certificate, X509* issuer, int nid,
                  const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension =
      Must(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  Must(X509_add_ext(certificate, extension, -1));
  X509_EXTENSION_free(extension);
}

void SetRandomSerial(X509* certificate) {
  BIGNUM* number = Must(BN_new());
  // The highest bit set, so that all serials have as many digits.
  Must(BN_rand(number, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY));
  Must(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)));
  BN_free(number);
}

CertificatePointer NewCertificate(const std::string& common_name, EVP_PKEY* key,
                                  absl::Time not_before, absl::Time not_after) {
  CertificatePointer certificate(Must(X509_new()));
  Must(X509_set_version(certificate.get(), X509_VERSION_3));
  SetRandomSerial(certificate.get());
  Must(X509_NAME_add_entry_by_txt(
      X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0));
  Must(ASN1_TIME_set(X509_getm_notBefore(certificate.get()),
                     absl::ToTimeT(not_before)));
  Must(ASN1_TIME_set(X509_getm_notAfter(certificate.get()),
                     absl::ToTimeT(not_after)));
  Must(X509_set_pubkey(certificate.get(), key));
  return certificate;
}

// Indicates a list of changes to list number 1.
void AddDeltaIndicator(X509_CRL* crl) {
  ASN1_INTEGER* number = Must(ASN1_INTEGER_new());
  Must(ASN1_INTEGER_set(number, 1));
  Must(X509_CRL_add1_ext_i2d(crl, NID_delta_crl, number, 1, 0));
  ASN1_INTEGER_free(number);
}

}  // namespace

struct CertificateAuthority::Parts {
  KeyPointer key = NewKey(KeyType::kEcP256);
  CertificatePointer certificate;
  std::string certificate_pem;
};

namespace {

// Of an authority; `issuer` null: by itself.
CertificatePointer NewAuthorityCertificate(const std::string& common_name,
                                           EVP_PKEY* key, X509* issuer,
                                           EVP_PKEY* issuer_key) {
  CertificatePointer made =
      NewCertificate(common_name, key, absl::Now() - absl::Hours(48),
                     absl::Now() + absl::Hours(24 * 365));
  X509* const by = issuer == nullptr ? made.get() : issuer;
  Must(X509_set_issuer_name(made.get(), X509_get_subject_name(by)));
  AddExtension(made.get(), by, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(made.get(), by, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(made.get(), by, NID_subject_key_identifier, "hash");
  Must(X509_sign(made.get(), issuer == nullptr ? key : issuer_key,
                 EVP_sha256()));
  return made;
}

}  // namespace

std::string EncryptedKeyPem(const std::string& key_pem) {
  const KeyPointer key = *ParseKey(key_pem);
  unsigned char passphrase[] = "correct horse";
  return PemBy([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), EVP_aes_128_cbc(),
                                    passphrase, sizeof(passphrase) - 1, nullptr,
                                    nullptr);
  });
}

CertificateAuthority::CertificateAuthority(const std::string& common_name)
    : parts_(std::make_unique<Parts>()) {
  parts_->certificate =
      NewAuthorityCertificate(common_name, parts_->key.get(), nullptr, nullptr);
  parts_->certificate_pem = PemOf(parts_->certificate.get());
}

CertificateAuthority::CertificateAuthority(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

CertificateAuthority::~CertificateAuthority() = default;
CertificateAuthority::CertificateAuthority(CertificateAuthority&&) noexcept =
    default;
CertificateAuthority& CertificateAuthority::operator=(
    CertificateAuthority&&) noexcept = default;

const std::string& CertificateAuthority::certificate_pem() const {
  return parts_->certificate_pem;
}

CertificateAuthority CertificateAuthority::IssueAuthority(
    const std::string& common_name) {
  auto below = std::make_unique<Parts>();
  below->certificate =
      NewAuthorityCertificate(common_name, below->key.get(),
                              parts_->certificate.get(), parts_->key.get());
  below->certificate_pem = PemOf(below->certificate.get());
  return CertificateAuthority(std::move(below));
}

CertificateAndKey CertificateAuthority::Issue(
    const CertificateOptions& options) {
  const KeyPointer key = NewKey(options.key_type);
  const CertificatePointer made = NewCertificate(
      options.common_name, key.get(), options.not_before, options.not_after);
  X509* const issuer = parts_->certificate.get();
  Must(X509_set_issuer_name(made.get(), X509_get_subject_name(issuer)));
  AddExtension(made.get(), issuer, NID_basic_constraints, "critical,CA:FALSE");
  if (!options.alternative_names.empty()) {
    AddExtension(made.get(), issuer, NID_subject_alt_name,
                 absl::StrJoin(options.alternative_names, ","));
  }
  if (!options.extended_key_usage.empty()) {
    AddExtension(made.get(), issuer, NID_ext_key_usage,
                 options.extended_key_usage);
  }
  Must(X509_sign(made.get(), parts_->key.get(), EVP_sha256()));
  return {PemOf(made.get()), PemOf(key.get()), SerialOf(made.get())};
}

std::string CertificateAuthority::Crl(
    const std::vector<std::string>& revoked_certificate_pems,
    const CrlOptions& options) {
  const CrlPointer crl(Must(X509_CRL_new()));
  Must(X509_CRL_set_version(crl.get(), X509_CRL_VERSION_2));
  Must(X509_CRL_set_issuer_name(
      crl.get(), X509_get_subject_name(parts_->certificate.get())));
  ASN1_TIME* time = Must(ASN1_TIME_new());
  Must(ASN1_TIME_set(time, absl::ToTimeT(options.this_update)));
  Must(X509_CRL_set1_lastUpdate(crl.get(), time));
  for (const std::string& pem : revoked_certificate_pems) {
    const auto certificates = *ParseCertificates(pem);
    X509_REVOKED* entry = Must(X509_REVOKED_new());
    Must(X509_REVOKED_set_serialNumber(
        entry, X509_get_serialNumber(certificates.front().get())));
    Must(X509_REVOKED_set_revocationDate(entry, time));
    Must(X509_CRL_add0_revoked(crl.get(), entry));
  }
  Must(ASN1_TIME_set(time, absl::ToTimeT(options.next_update)));
  Must(X509_CRL_set1_nextUpdate(crl.get(), time));
  ASN1_TIME_free(time);
  if (options.is_delta) AddDeltaIndicator(crl.get());
  Must(X509_CRL_sort(crl.get()));
  Must(X509_CRL_sign(crl.get(), parts_->key.get(), EVP_sha256()));
  return PemBy(
      [&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, crl.get()); });
}

}  // namespace dedupe::testing
