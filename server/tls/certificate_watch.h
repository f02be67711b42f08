// Puts new certificates in place when their files change, and keeps the old
// ones while the new are not fit.
#ifndef DEDUPE_SERVER_TLS_CERTIFICATE_WATCH_H_
#define DEDUPE_SERVER_TLS_CERTIFICATE_WATCH_H_

#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/tls/certificate_files.h"
#include "server/tls/loaded_certificate.h"
#include "server/tls/revocation.h"
#include "server/tls/tls_credentials.h"

namespace dedupe {

// Thread-safe. Looks at the contents, not at times or names, so that it does
// not matter how the files are written. Contents count when two looks, at most
// a second apart, found the same: whoever writes one file after the other, or
// one in pieces, is given time to finish.
//
// Its events: certificate_loaded; certificate_refused, once for each contents
// that are not fit; certificate_warning, for what is served all the same, and,
// once a day, certificate_expires_soon, certificate_expired and
// revocation_list_out_of_date.
class CertificateWatch {
 public:
  struct Options {
    // Between two looks.
    absl::Duration interval = absl::Seconds(10);
  };

  // `served` is what the credentials have, read from `files`. Starts at once,
  // and puts the revocation lists in force before it returns. The credentials
  // and `revocation` must outlive it.
  CertificateWatch(CertificateFiles files, LoadedCertificate served,
                   TlsCredentials& credentials, Revocation& revocation,
                   Options options);
  ~CertificateWatch();
  CertificateWatch(const CertificateWatch&) = delete;
  CertificateWatch& operator=(const CertificateWatch&) = delete;

  // Makes it look now. Not for use in a signal handler.
  void Poke();
  // Idempotent, for one thread.
  void Stop();

 private:
  enum class WakeUp { kAtPoke, kInTimeOnly };

  void Run();
  void Look();
  void PutInForce();
  void Refuse(const std::string& digest, absl::string_view message);
  void TellOfAge(absl::Time now);
  // False when it is time to stop.
  bool Sleep(absl::Duration duration, WakeUp wake_up);

  const CertificateFiles files_;
  TlsCredentials& credentials_;
  Revocation& revocation_;
  const Options options_;

  // For the thread alone.
  LoadedCertificate served_;
  // Of contents that were seen once and are to be seen again; empty if none.
  std::string unsettled_digest_;
  // Of the contents refused last; empty if what was seen last is served.
  std::string refused_digest_;
  // When each was last told of.
  absl::Time soon_told_at_ = absl::InfinitePast();
  absl::Time expired_told_at_ = absl::InfinitePast();
  absl::Time list_told_at_ = absl::InfinitePast();

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_CERTIFICATE_WATCH_H_
