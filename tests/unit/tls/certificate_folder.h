// Certificate files in a folder of their own.
#ifndef DEDUPE_TESTS_UNIT_TLS_CERTIFICATE_FOLDER_H_
#define DEDUPE_TESTS_UNIT_TLS_CERTIFICATE_FOLDER_H_

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "server/tls/certificate_files.h"
#include "tests/support/certificates.h"

namespace dedupe::testing {

class CertificateFolder {
 public:
  CertificateFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "dedupe-tls-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    files_.certificate = folder_ + "/server.pem";
    files_.key = folder_ + "/server.key";
  }
  ~CertificateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  CertificateFolder(const CertificateFolder&) = delete;
  CertificateFolder& operator=(const CertificateFolder&) = delete;

  // With the paths of what was written; certificate and key always.
  const CertificateFiles& files() const { return files_; }

  void WriteCertificate(const std::string& pem) {
    Write(files_.certificate, pem);
  }
  void WriteKey(const std::string& pem) {
    Write(files_.key, pem);
    chmod(files_.key.c_str(), 0600);
  }
  void WritePair(const CertificateAndKey& pair) {
    WriteCertificate(pair.certificate_pem);
    WriteKey(pair.key_pem);
  }
  void WriteClientCa(const std::string& pem) {
    files_.client_ca = folder_ + "/client_ca.pem";
    Write(files_.client_ca, pem);
  }
  void WriteClientCrl(const std::string& pem) {
    files_.client_crl = folder_ + "/client.crl";
    Write(files_.client_crl, pem);
  }

 private:
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }

  std::string folder_;
  CertificateFiles files_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_UNIT_TLS_CERTIFICATE_FOLDER_H_
