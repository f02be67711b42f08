// The files that TLS is served from, and what is in them.
#ifndef DEDUPE_SERVER_TLS_CERTIFICATE_FILES_H_
#define DEDUPE_SERVER_TLS_CERTIFICATE_FILES_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace dedupe {

// Paths of PEM files.
struct CertificateFiles {
  // The server's certificate, and behind it the intermediate ones, each the
  // issuer of the one before.
  std::string certificate;
  // Its private key, without a passphrase.
  std::string key;
  // The CAs that callers' certificates may come from. Empty: callers are not
  // asked for certificates.
  std::string client_ca;
  // Their lists of revoked certificates. Empty: none. Needs client_ca.
  std::string client_crl;
};

// What was in the files at one moment.
struct CertificateContents {
  struct File {
    // As the command line has it, such as `--tls-key-file`.
    const char* setting = "";
    std::string path;
    // Or why it cannot be had, to be read behind the name of the file.
    absl::StatusOr<std::string> text = std::string();
    bool others_may_read = false;
  };

  File certificate;
  File key;
  // Unset if there is no such file by the settings.
  std::optional<File> client_ca;
  std::optional<File> client_crl;

  // SHA-256 in hexadecimal digits over all of it; a file that cannot be read
  // counts as what went wrong.
  std::string Digest() const;
};

// Of each file: a hundred times a common chain, and the CRL of a large CA.
constexpr size_t kCertificateFileBytesMax = 1024 * 1024;

// Never waits for a device or a pipe.
CertificateContents ReadCertificateFiles(const CertificateFiles& files);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TLS_CERTIFICATE_FILES_H_
