#include "server/tls/certificate_files.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dedupe {
namespace {

using File = CertificateContents::File;

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<std::string> ReadAll(int descriptor) {
  // One byte above the bound is enough to know that the file is.
  std::string text(kCertificateFileBytesMax + 1, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t count =
        read(descriptor, text.data() + length, text.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("cannot be read");
    if (count == 0) break;
    length += static_cast<size_t>(count);
  }
  if (length == text.size()) {
    return absl::OutOfRangeError("is above 1 MiB");
  }
  text.resize(length);
  return text;
}

File ReadFile(const char* setting, const std::string& path) {
  File file;
  file.setting = setting;
  file.path = path;
  // Not blocking, for the case that it is a pipe that nobody writes to.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    file.text = SystemError("cannot be opened");
    return file;
  }
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) {
    file.text = SystemError("cannot be read");
    return file;
  }
  file.others_may_read = (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
  file.text = S_ISREG(status.st_mode)
                  ? ReadAll(descriptor)
                  : absl::UnavailableError("is not a regular file");
  return file;
}

// With lengths, so that no two contents give the same.
std::string Framed(const File& file) {
  const std::string text =
      file.text.ok() ? *file.text : std::string(file.text.status().message());
  return absl::StrCat(file.setting, file.text.ok() ? "+" : "-", text.size(),
                      ":", text);
}

}  // namespace

std::string CertificateContents::Digest() const {
  std::string all = absl::StrCat(Framed(certificate), Framed(key));
  if (client_ca.has_value()) absl::StrAppend(&all, Framed(*client_ca));
  if (client_crl.has_value()) absl::StrAppend(&all, Framed(*client_crl));
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

CertificateContents ReadCertificateFiles(const CertificateFiles& files) {
  CertificateContents contents;
  contents.certificate = ReadFile("--tls-certificate-file", files.certificate);
  contents.key = ReadFile("--tls-key-file", files.key);
  if (!files.client_ca.empty()) {
    contents.client_ca = ReadFile("--tls-client-ca-file", files.client_ca);
  }
  if (!files.client_crl.empty()) {
    contents.client_crl = ReadFile("--tls-client-crl-file", files.client_crl);
  }
  return contents;
}

}  // namespace dedupe
