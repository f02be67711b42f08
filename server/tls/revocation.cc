#include "server/tls/revocation.h"

#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include <algorithm>
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

// Longer paths are nobody's.
constexpr int kPathMax = 10;

std::string Fingerprint(const X509* certificate) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  unsigned int size = sizeof(digest);
  if (X509_digest(certificate, EVP_sha256(), digest, &size) != 1) return "";
  return {digest, digest + size};
}

bool IsIssuedBy(X509* certificate, X509* issuer) {
  return X509_check_issued(issuer, certificate) == X509_V_OK &&
         X509_verify(certificate, X509_get0_pubkey(issuer)) == 1;
}

X509* FindIssuer(const std::vector<CertificatePointer>& candidates,
                 X509* certificate) {
  for (const CertificatePointer& candidate : candidates) {
    if (IsIssuedBy(certificate, candidate.get())) return candidate.get();
  }
  return nullptr;
}

bool Holds(const std::vector<CertificatePointer>& certificates,
           const X509* certificate) {
  return std::any_of(certificates.begin(), certificates.end(),
                     [certificate](const CertificatePointer& other) {
                       return X509_cmp(other.get(), certificate) == 0;
                     });
}

}  // namespace

struct Revocation::Chain {
  // The leaf first. Empty if they cannot be read.
  std::vector<CertificatePointer> certificates;
  absl::Time not_before = absl::InfiniteFuture();
  absl::Time not_after = absl::InfinitePast();
};

struct Revocation::InForce {
  std::vector<CrlPointer> lists;
  std::vector<CertificatePointer> authorities;
};

Revocation::Revocation() : in_force_(std::make_shared<const InForce>()) {}

Revocation::~Revocation() = default;

void Revocation::Replace(absl::string_view crl_pem, absl::string_view ca_pem) {
  auto next = std::make_shared<InForce>();
  if (!crl_pem.empty()) {
    auto lists = ParseCrls(crl_pem);
    auto authorities = ParseCertificates(ca_pem);
    // They were parsed before, so that this is no more than a precaution; the
    // lists in force are better than none.
    if (!lists.ok() || !authorities.ok()) return;
    next->lists = *std::move(lists);
    next->authorities = *std::move(authorities);
  }
  absl::MutexLock lock(&mutex_);
  in_force_ = std::move(next);
  paths_.clear();
}

CertificateVerdict Revocation::Judge(absl::string_view pem, absl::Time now) {
  const std::string digest = Sha256(pem);
  const ChainPointer chain = ChainOf(digest, pem);
  if (chain->certificates.empty()) return CertificateVerdict::kMalformed;
  const CertificateVerdict path = JudgePath(digest, *chain);
  if (path != CertificateVerdict::kGood) return path;
  if (now < chain->not_before) return CertificateVerdict::kNotYetValid;
  if (now >= chain->not_after) return CertificateVerdict::kExpired;
  return CertificateVerdict::kGood;
}

CertificateVerdict Revocation::JudgePath(const std::string& digest,
                                         const Chain& chain) {
  std::shared_ptr<const InForce> in_force;
  ChainPointer sent_before;
  {
    absl::MutexLock lock(&mutex_);
    in_force = in_force_;
    if (in_force->lists.empty()) return CertificateVerdict::kGood;
    const auto judged = paths_.find(digest);
    if (judged != paths_.end()) return judged->second;
    const auto sent =
        chains_by_leaf_.find(Fingerprint(chain.certificates.front().get()));
    if (sent != chains_by_leaf_.end()) sent_before = sent->second;
  }
  const CertificateVerdict verdict = Walk(chain, sent_before.get(), *in_force);
  absl::MutexLock lock(&mutex_);
  // What is missing may be sent later.
  if (in_force == in_force_ && verdict != CertificateVerdict::kIncomplete) {
    if (paths_.size() >= kRememberedMax) paths_.clear();
    paths_[digest] = verdict;
  }
  return verdict;
}

// From the leaf up, as far as certificates are known: what was sent, what was
// sent in the full handshake that a resumed session goes back to, and the
// client CAs.
CertificateVerdict Revocation::Walk(const Chain& chain,
                                    const Chain* sent_before,
                                    const InForce& in_force) {
  X509* certificate = chain.certificates.front().get();
  bool is_anchored = false;
  for (int depth = 0; depth < kPathMax; ++depth) {
    for (const CrlPointer& list : in_force.lists) {
      if (IsOn(list.get(), certificate)) return CertificateVerdict::kRevoked;
    }
    is_anchored |= Holds(in_force.authorities, certificate);
    if (IsIssuedBy(certificate, certificate)) break;
    X509* issuer = FindIssuer(chain.certificates, certificate);
    if (issuer == nullptr && sent_before != nullptr) {
      issuer = FindIssuer(sent_before->certificates, certificate);
    }
    if (issuer == nullptr) {
      issuer = FindIssuer(in_force.authorities, certificate);
    }
    if (issuer == nullptr) break;
    certificate = issuer;
  }
  // Whoever leaves certificates out might leave out the one that is revoked.
  return is_anchored ? CertificateVerdict::kGood
                     : CertificateVerdict::kIncomplete;
}

size_t Revocation::remembered() const {
  absl::MutexLock lock(&mutex_);
  return chains_.size();
}

Revocation::ChainPointer Revocation::ChainOf(const std::string& digest,
                                             absl::string_view pem) {
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
  if (chain->certificates.size() > 1) {
    if (chains_by_leaf_.size() >= kRememberedMax) chains_by_leaf_.clear();
    chains_by_leaf_[Fingerprint(chain->certificates.front().get())] = chain;
  }
  chains_[digest] = chain;
  return chain;
}

}  // namespace dedupe
