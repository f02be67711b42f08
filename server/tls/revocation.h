// Whether a caller's certificate is still good. gRPC verifies it once, when the
// connection is made, and without looking at revocation lists; this is asked
// for each call, so that connections that are open lose their rights too.
#ifndef DEDUPE_SERVER_TLS_REVOCATION_H_
#define DEDUPE_SERVER_TLS_REVOCATION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/tls/openssl_pointers.h"

namespace dedupe {

enum class CertificateVerdict {
  kGood,
  kExpired,
  kNotYetValid,
  kRevoked,
  // It does not lead to a client CA by what is known, so that it cannot be told
  // whether something on the way was revoked.
  kIncomplete,
  // It cannot be read.
  kMalformed,
};

// Thread-safe.
class Revocation {
 public:
  // Callers whose certificates are kept parsed, some 5 KiB each; with more of
  // them, each is parsed anew now and then.
  static constexpr size_t kRememberedMax = 4096;

  // No list: nothing is revoked.
  Revocation();
  ~Revocation();
  Revocation(const Revocation&) = delete;
  Revocation& operator=(const Revocation&) = delete;

  // `crl_pem`: one or more lists, from JudgeCertificate; empty: none. `ca_pem`:
  // the client CAs that go with them. In force for every Judge() that begins
  // afterwards.
  void Replace(absl::string_view crl_pem, absl::string_view ca_pem);

  // `pem`: of a verified caller, its own certificate first and then what it
  // sent with it (see PeerCertificates). Where there are lists, revoked is
  // whatever has one on them on its way to a client CA; a validity is only the
  // first one's. A session that is resumed shows the first alone: then what its
  // full handshake sent is remembered.
  CertificateVerdict Judge(absl::string_view pem, absl::Time now);

  // At most kRememberedMax.
  size_t remembered() const;

 private:
  struct Chain;
  using ChainPointer = std::shared_ptr<const Chain>;
  // Lists and client CAs.
  struct InForce;

  ChainPointer ChainOf(const std::string& digest, absl::string_view pem);
  CertificateVerdict JudgePath(const std::string& digest, const Chain& chain);
  static CertificateVerdict Walk(const Chain& chain, const Chain* sent_before,
                                 const InForce& in_force);

  mutable absl::Mutex mutex_;
  std::shared_ptr<const InForce> in_force_ ABSL_GUARDED_BY(mutex_);
  // By SHA-256 of the text: to parse takes a hundred times as long.
  absl::flat_hash_map<std::string, ChainPointer> chains_
      ABSL_GUARDED_BY(mutex_);
  // By SHA-256 of the leaf: the last that came with more than that.
  absl::flat_hash_map<std::string, ChainPointer> chains_by_leaf_
      ABSL_GUARDED_BY(mutex_);
  // By SHA-256 of the text, by what is in force: to verify signatures takes as
  // long as a call.
  absl::flat_hash_map<std::string, CertificateVerdict> paths_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_REVOCATION_H_
