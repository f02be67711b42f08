// PEM text and its parts.
#ifndef DEDUPE_SERVER_TLS_PEM_H_
#define DEDUPE_SERVER_TLS_PEM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/tls/openssl_pointers.h"

namespace dedupe {

// All of `text`'s certificates, in order. What is not between the marks of a
// PEM block is passed over, as OpenSSL does. INVALID_ARGUMENT: there is none,
// or one of them cannot be read; the message is what is wrong and can stand
// behind the name of a file.
absl::StatusOr<std::vector<CertificatePointer>> ParseCertificates(
    absl::string_view text);

// Likewise.
absl::StatusOr<std::vector<CrlPointer>> ParseCrls(absl::string_view text);

// Likewise, of the first private key. One with a passphrase is refused: nobody
// is there to give it.
absl::StatusOr<KeyPointer> ParseKey(absl::string_view text);

// In hexadecimal digits.
std::string SerialOf(const X509* certificate);

// InfinitePast if it is not a valid time.
absl::Time TimeOf(const ASN1_TIME* time);

// What OpenSSL last found wrong in this thread, in its words, which never
// contain input; forgets it.
std::string TakeOpensslError();

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_PEM_H_
