#include "server/tls/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dedupe {
namespace {

bool IsEndOfInput(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_PEM &&
         ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

// Without it, OpenSSL would ask at the terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

template <typename Pointer, typename ReadOne>
absl::StatusOr<std::vector<Pointer>> ParseAll(absl::string_view text,
                                              const char* noun,
                                              ReadOne read_one) {
  const BioPointer bio = BioOf(text);
  std::vector<Pointer> all;
  ERR_clear_error();
  while (Pointer one{read_one(bio.get())}) all.push_back(std::move(one));
  if (!IsEndOfInput(ERR_peek_last_error())) {
    return absl::InvalidArgumentError(
        absl::StrCat("has a ", noun, " that cannot be read, number ",
                     all.size() + 1, " in it: ", TakeOpensslError()));
  }
  ERR_clear_error();
  if (all.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has no ", noun, " in PEM form"));
  }
  return all;
}

}  // namespace

absl::StatusOr<std::vector<CertificatePointer>> ParseCertificates(
    absl::string_view text) {
  return ParseAll<CertificatePointer>(text, "certificate", [](BIO* bio) {
    return PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  });
}

absl::StatusOr<std::vector<CrlPointer>> ParseCrls(absl::string_view text) {
  return ParseAll<CrlPointer>(text, "revocation list", [](BIO* bio) {
    return PEM_read_bio_X509_CRL(bio, nullptr, nullptr, nullptr);
  });
}

absl::StatusOr<KeyPointer> ParseKey(absl::string_view text) {
  const BioPointer bio = BioOf(text);
  bool asked = false;
  ERR_clear_error();
  KeyPointer key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, &asked));
  ERR_clear_error();
  if (key != nullptr) return key;
  if (asked) {
    return absl::InvalidArgumentError(
        "is encrypted; the server needs the key without a passphrase");
  }
  // No word of OpenSSL's: what it says of a key need not be known.
  return absl::InvalidArgumentError(
      "has no private key in PEM form that can be read");
}

std::string SerialOf(const X509* certificate) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  i2a_ASN1_INTEGER(bio.get(), X509_get0_serialNumber(certificate));
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InfinitePast();
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string TakeOpensslError() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(error);
  return reason == nullptr ? "unknown error" : reason;
}

}  // namespace dedupe
