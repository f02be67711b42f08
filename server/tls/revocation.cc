#include "server/tls/revocation.h"

#include <openssl/sha.h>

#include <utility>

#include "server/tls/pem.h"

namespace dedupe {
namespace {

std::string Sha256(absl::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool IsOn(X509_CRL* list, X509* certificate) {
  if (X509_NAME_cmp(X509_CRL_get_issuer(list),
                    X509_get_issuer_name(certificate)) != 0) {
    return false;
  }
  X509_REVOKED* entry = nullptr;
  // 2 is an entry that takes a revocation back.
  return X509_CRL_get0_by_cert(list, &entry, certificate) == 1;
}

}  // namespace

struct Revocation::Chain {
  // Empty if they cannot be read.
  std::vector<CertificatePointer> certificates;
  absl::Time not_before = absl::InfiniteFuture();
  absl::Time not_after = absl::InfinitePast();
};

Revocation::Revocation()
    : lists_(std::make_shared<const std::vector<CrlPointer>>()) {}

Revocation::~Revocation() = default;

void Revocation::Replace(absl::string_view crl_pem) {
  std::vector<CrlPointer> lists;
  if (!crl_pem.empty()) {
    auto parsed = ParseCrls(crl_pem);
    // It was parsed before, so that this is no more than a precaution; the
    // lists in force are better than none.
    if (!parsed.ok()) return;
    lists = *std::move(parsed);
  }
  auto shared =
      std::make_shared<const std::vector<CrlPointer>>(std::move(lists));
  absl::MutexLock lock(&mutex_);
  lists_ = std::move(shared);
}

CertificateVerdict Revocation::Judge(absl::string_view pem, absl::Time now) {
  const ChainPointer chain = ChainOf(pem);
  if (chain->certificates.empty()) return CertificateVerdict::kMalformed;
  std::shared_ptr<const std::vector<CrlPointer>> lists;
  {
    absl::MutexLock lock(&mutex_);
    lists = lists_;
  }
  for (const CrlPointer& list : *lists) {
    for (const CertificatePointer& certificate : chain->certificates) {
      if (IsOn(list.get(), certificate.get())) {
        return CertificateVerdict::kRevoked;
      }
    }
  }
  if (now < chain->not_before) return CertificateVerdict::kNotYetValid;
  if (now >= chain->not_after) return CertificateVerdict::kExpired;
  return CertificateVerdict::kGood;
}

size_t Revocation::remembered() const {
  absl::MutexLock lock(&mutex_);
  return chains_.size();
}

Revocation::ChainPointer Revocation::ChainOf(absl::string_view pem) {
  std::string digest = Sha256(pem);
  {
    absl::MutexLock lock(&mutex_);
    const auto found = chains_.find(digest);
    if (found != chains_.end()) return found->second;
  }
  auto chain = std::make_shared<Chain>();
  auto parsed = ParseCertificates(pem);
  if (parsed.ok()) {
    chain->certificates = *std::move(parsed);
    const X509* leaf = chain->certificates.front().get();
    chain->not_before = TimeOf(X509_get0_notBefore(leaf));
    chain->not_after = TimeOf(X509_get0_notAfter(leaf));
  }
  absl::MutexLock lock(&mutex_);
  // All at once: to know which was used least would cost each call more than
  // this does.
  if (chains_.size() >= kRememberedMax) chains_.clear();
  chains_[std::move(digest)] = chain;
  return chain;
}

}  // namespace dedupe
