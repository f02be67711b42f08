#include "server/tls/loaded_certificate.h"

#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "server/tls/pem.h"

namespace dedupe {
namespace {

using File = CertificateContents::File;
using Certificates = std::vector<CertificatePointer>;

std::string At(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

std::string About(const File& file, absl::string_view what) {
  return absl::StrCat(file.setting, " \"", file.path, "\" ", what);
}

absl::Status Unfit(const File& file, absl::string_view what) {
  return absl::FailedPreconditionError(About(file, what));
}

absl::Status CheckText(const File& file) {
  if (!file.text.ok()) return Unfit(file, file.text.status().message());
  if (file.text->empty()) return Unfit(file, "is empty");
  // gRPC takes texts that end at the first of them.
  if (file.text->find('\0') != std::string::npos) {
    return Unfit(file, "has a byte of value 0, so it is not PEM");
  }
  return absl::OkStatus();
}

absl::Status CheckDates(const File& file, const X509* leaf, absl::Time now) {
  const absl::Time not_before = TimeOf(X509_get0_notBefore(leaf));
  const absl::Time not_after = TimeOf(X509_get0_notAfter(leaf));
  if (not_before > now) {
    return Unfit(file, absl::StrCat("is not valid before ", At(not_before)));
  }
  if (not_after <= now) {
    return Unfit(file, absl::StrCat("expired at ", At(not_after)));
  }
  return absl::OkStatus();
}

// Puts all of it into a context, as gRPC will: this applies OpenSSL's limits on
// weak keys and digests.
absl::Status CheckUsable(const CertificateContents& contents,
                         const Certificates& chain, EVP_PKEY* key) {
  const SslContextPointer context(SSL_CTX_new(TLS_server_method()));
  if (SSL_CTX_use_certificate(context.get(), chain[0].get()) != 1) {
    return Unfit(contents.certificate,
                 absl::StrCat("cannot be used: ", TakeOpensslError()));
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) != 1) {
      return Unfit(contents.certificate,
                   absl::StrCat("cannot be used, for its certificate number ",
                                i + 1, ": ", TakeOpensslError()));
    }
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1) {
    return Unfit(contents.key,
                 absl::StrCat("cannot be used: ", TakeOpensslError()));
  }
  return absl::OkStatus();
}

absl::Status CheckPair(const CertificateContents& contents,
                       const Certificates& chain, EVP_PKEY* key,
                       absl::Time now) {
  const File& file = contents.certificate;
  X509* const leaf = chain[0].get();
  absl::Status dates = CheckDates(file, leaf, now);
  if (!dates.ok()) return dates;
  const bool is_its_key = X509_check_private_key(leaf, key) == 1;
  TakeOpensslError();
  if (!is_its_key) {
    return Unfit(contents.key, absl::StrCat("is not the key of ", file.setting,
                                            " \"", file.path, "\""));
  }
  if (X509_check_purpose(leaf, X509_PURPOSE_SSL_SERVER, 0) != 1) {
    return Unfit(file, "is not for servers, by its key usage");
  }
  return CheckUsable(contents, chain, key);
}

// Only warnings, because most callers find their way.
std::vector<std::string> WarningsOf(const File& file,
                                    const Certificates& chain) {
  std::vector<std::string> warnings;
  for (size_t i = 1; i < chain.size(); ++i) {
    if (X509_check_issued(chain[i].get(), chain[i - 1].get()) == X509_V_OK) {
      continue;
    }
    warnings.push_back(
        About(file, absl::StrCat("is out of order: its certificate number ",
                                 i + 1, " did not issue the one before")));
  }
  if (X509_get_ext_by_NID(chain[0].get(), NID_subject_alt_name, -1) < 0) {
    warnings.push_back(About(file,
                             "has no subject alternative name, and many "
                             "callers go by nothing else"));
  }
  return warnings;
}

bool IsSignedByOneOf(X509_CRL* crl, const Certificates& cas) {
  const bool is_signed =
      std::any_of(cas.begin(), cas.end(), [crl](const auto& ca) {
        return X509_NAME_cmp(X509_CRL_get_issuer(crl),
                             X509_get_subject_name(ca.get())) == 0 &&
               X509_CRL_verify(crl, X509_get0_pubkey(ca.get())) == 1;
      });
  TakeOpensslError();
  return is_signed;
}

absl::Status CheckCrl(const File& file, X509_CRL* crl,
                      const Certificates& cas) {
  if (!IsSignedByOneOf(crl, cas)) {
    return Unfit(file,
                 "has a list that no CA of --tls-client-ca-file has signed");
  }
  // Such as of a list of changes only, or of some certificates only. RFC 5280,
  // 5.2, forbids to go by a list whose extensions one does not understand.
  if (X509_CRL_get_ext_by_critical(crl, 1, -1) >= 0) {
    return Unfit(file,
                 "has a list with a critical extension; only complete lists "
                 "are understood");
  }
  return absl::OkStatus();
}

absl::StatusOr<Certificates> LoadClientCa(const File& file, absl::Time now) {
  auto cas = ParseCertificates(*file.text);
  if (!cas.ok()) return Unfit(file, cas.status().message());
  const bool any_valid =
      std::any_of(cas->begin(), cas->end(), [now](const auto& ca) {
        return TimeOf(X509_get0_notAfter(ca.get())) > now;
      });
  if (!any_valid) return Unfit(file, "has only expired certificates");
  return cas;
}

// When the first of its lists is out of date.
absl::StatusOr<absl::Time> LoadCrl(const File& file, const Certificates& cas) {
  const auto crls = ParseCrls(*file.text);
  if (!crls.ok()) return Unfit(file, crls.status().message());
  absl::Time next_update = absl::InfiniteFuture();
  for (const CrlPointer& crl : *crls) {
    absl::Status status = CheckCrl(file, crl.get(), cas);
    if (!status.ok()) return status;
    const ASN1_TIME* time = X509_CRL_get0_nextUpdate(crl.get());
    if (time != nullptr) next_update = std::min(next_update, TimeOf(time));
  }
  return next_update;
}

absl::Status CheckTexts(const CertificateContents& contents) {
  for (const absl::Status& status :
       {CheckText(contents.certificate), CheckText(contents.key),
        contents.client_ca.has_value() ? CheckText(*contents.client_ca)
                                       : absl::OkStatus(),
        contents.client_crl.has_value() ? CheckText(*contents.client_crl)
                                        : absl::OkStatus()}) {
    if (!status.ok()) return status;
  }
  if (contents.client_crl.has_value() && !contents.client_ca.has_value()) {
    return Unfit(*contents.client_crl, "needs --tls-client-ca-file");
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedCertificate> LoadPair(const CertificateContents& contents,
                                           absl::Time now) {
  const File& file = contents.certificate;
  const auto chain = ParseCertificates(*file.text);
  if (!chain.ok()) return Unfit(file, chain.status().message());
  const auto key = ParseKey(*contents.key.text);
  if (!key.ok()) return Unfit(contents.key, key.status().message());
  absl::Status pair = CheckPair(contents, *chain, key->get(), now);
  if (!pair.ok()) return pair;
  LoadedCertificate loaded;
  loaded.certificate_pem = *file.text;
  loaded.key_pem = *contents.key.text;
  loaded.not_after = TimeOf(X509_get0_notAfter((*chain)[0].get()));
  loaded.serial = SerialOf((*chain)[0].get());
  loaded.warnings = WarningsOf(file, *chain);
  if (contents.key.others_may_read) {
    loaded.warnings.push_back(
        About(contents.key, "can be read by others than its owner"));
  }
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedCertificate> JudgeCertificate(
    const CertificateContents& contents, absl::Time now) {
  absl::Status texts = CheckTexts(contents);
  if (!texts.ok()) return texts;
  auto loaded = LoadPair(contents, now);
  if (!loaded.ok()) return loaded.status();
  loaded->digest = contents.Digest();
  if (!contents.client_ca.has_value()) return loaded;
  const auto cas = LoadClientCa(*contents.client_ca, now);
  if (!cas.ok()) return cas.status();
  loaded->client_ca_pem = *contents.client_ca->text;
  if (!contents.client_crl.has_value()) return loaded;
  const auto next_update = LoadCrl(*contents.client_crl, *cas);
  if (!next_update.ok()) return next_update.status();
  loaded->client_crl_pem = *contents.client_crl->text;
  loaded->crl_next_update = *next_update;
  return loaded;
}

absl::StatusOr<LoadedCertificate> LoadCertificate(
    const CertificateFiles& files) {
  return JudgeCertificate(ReadCertificateFiles(files), absl::Now());
}

}  // namespace dedupe
