// Which files are fit to be served, and what is said of those that are not.
#include "server/tls/loaded_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/support/certificates.h"
#include "tests/unit/tls/certificate_folder.h"

namespace dedupe {
namespace {

using testing::CertificateAndKey;
using testing::CertificateAuthority;
using testing::CertificateFolder;
using testing::CertificateOptions;
using testing::CrlOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::KeyType;
using ::testing::Not;

CertificateAuthority& Ca() {
  static auto& ca = *new CertificateAuthority("acme servers");
  return ca;
}

const CertificateAndKey& Good() {
  static const auto& good = *new CertificateAndKey(Ca().Issue());
  return good;
}

std::string Half(const std::string& text) {
  return text.substr(0, text.size() / 2);
}

// --- Fit ---------------------------------------------------------------------

TEST(LoadCertificateTest, TellsWhatItHasLoaded) {
  CertificateFolder folder;
  CertificateOptions options;
  options.not_after = absl::FromUnixSeconds(4000000000);
  const CertificateAndKey pair = Ca().Issue(options);
  folder.WritePair(pair);
  const auto loaded = LoadCertificate(folder.files());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->certificate_pem, pair.certificate_pem);
  EXPECT_EQ(loaded->key_pem, pair.key_pem);
  EXPECT_EQ(loaded->serial, pair.serial);
  EXPECT_EQ(loaded->not_after, options.not_after);
  EXPECT_EQ(loaded->client_ca_pem, "");
  EXPECT_EQ(loaded->crl_next_update, absl::InfiniteFuture());
  EXPECT_THAT(loaded->warnings, IsEmpty());
}

TEST(LoadCertificateTest, TakesRsaToo) {
  CertificateFolder folder;
  CertificateOptions options;
  options.key_type = KeyType::kRsa2048;
  folder.WritePair(Ca().Issue(options));
  EXPECT_TRUE(LoadCertificate(folder.files()).ok());
}

TEST(LoadCertificateTest, TakesChainAndClientCaAndCrl) {
  CertificateFolder folder;
  CertificateAuthority middle = Ca().IssueAuthority("acme middle");
  const CertificateAndKey pair = middle.Issue();
  folder.WriteCertificate(pair.certificate_pem + middle.certificate_pem());
  folder.WriteKey(pair.key_pem);
  folder.WriteClientCa(middle.certificate_pem() + Ca().certificate_pem());
  CrlOptions sooner;
  sooner.next_update =
      absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()) + 3600);
  folder.WriteClientCrl(Ca().Crl({}) + middle.Crl({}, sooner));
  const auto loaded = LoadCertificate(folder.files());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->crl_next_update, sooner.next_update);
  EXPECT_THAT(loaded->client_ca_pem, HasSubstr(Ca().certificate_pem()));
  EXPECT_THAT(loaded->warnings, IsEmpty());
}

TEST(LoadCertificateTest, CrlOutOfDateIsStillTaken) {
  CertificateFolder folder;
  folder.WritePair(Good());
  folder.WriteClientCa(Ca().certificate_pem());
  CrlOptions options;
  options.next_update = absl::Now() - absl::Minutes(1);
  folder.WriteClientCrl(Ca().Crl({}, options));
  const auto loaded = LoadCertificate(folder.files());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_LT(loaded->crl_next_update, absl::Now());
}

TEST(LoadCertificateTest, WarnsOfReadableKeyOfOrderAndOfNoName) {
  CertificateFolder folder;
  CertificateOptions options;
  options.alternative_names = {};
  const CertificateAndKey pair = Ca().Issue(options);
  folder.WriteCertificate(pair.certificate_pem + Good().certificate_pem);
  folder.WriteKey(pair.key_pem);
  chmod(folder.files().key.c_str(), 0640);
  const auto loaded = LoadCertificate(folder.files());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->warnings,
              ElementsAre(HasSubstr("certificate number 2 did not issue"),
                          HasSubstr("no subject alternative name"),
                          HasSubstr("can be read by others")));
}

TEST(CertificateContentsTest, DigestChangesWithEachFile) {
  CertificateFolder folder;
  folder.WritePair(Good());
  const std::string first = ReadCertificateFiles(folder.files()).Digest();
  EXPECT_EQ(ReadCertificateFiles(folder.files()).Digest(), first);
  // The same bytes in all, but not in the same files.
  folder.WriteCertificate(Good().certificate_pem + Good().key_pem);
  folder.WriteKey("");
  const std::string moved = ReadCertificateFiles(folder.files()).Digest();
  EXPECT_NE(moved, first);
  folder.WriteClientCa("");
  EXPECT_NE(ReadCertificateFiles(folder.files()).Digest(), moved);
}

// --- Not fit -----------------------------------------------------------------

struct Unfit {
  const char* name;
  // On a folder with a good pair.
  std::function<void(CertificateFolder&)> spoil;
  const char* setting;
  const char* what;
};

void PrintTo(const Unfit& unfit, std::ostream* out) { *out << unfit.name; }

class UnfitCertificateTest : public ::testing::TestWithParam<Unfit> {};

TEST_P(UnfitCertificateTest, IsRefusedWithReason) {
  CertificateFolder folder;
  folder.WritePair(Good());
  GetParam().spoil(folder);
  const auto loaded = LoadCertificate(folder.files());
  ASSERT_EQ(loaded.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(loaded.status().message());
  EXPECT_EQ(message.find(absl::StrCat(GetParam().setting, " \"/")), 0U)
      << message;
  EXPECT_THAT(message, HasSubstr(GetParam().what));
  EXPECT_THAT(message, Not(HasSubstr("-----")));
}

CertificateAndKey With(const std::function<void(CertificateOptions&)>& change) {
  CertificateOptions options;
  change(options);
  return Ca().Issue(options);
}

std::vector<Unfit> UnfitPairs() {
  const char* certificate = "--tls-certificate-file";
  const char* key = "--tls-key-file";
  return {
      {"KeyOfAnother",
       [](auto& folder) { folder.WriteKey(Ca().Issue().key_pem); }, key,
       "is not the key of --tls-certificate-file"},
      {"KeyOfAnotherKind",
       [](auto& folder) {
         folder.WriteKey(With([](auto& options) {
                           options.key_type = KeyType::kRsa2048;
                         }).key_pem);
       },
       key, "is not the key of"},
      {"CertificateTruncated",
       [](auto& folder) {
         folder.WriteCertificate(Half(Good().certificate_pem));
       },
       certificate, "a certificate that cannot be read, number 1"},
      {"SecondCertificateTruncated",
       [](auto& folder) {
         folder.WriteCertificate(Good().certificate_pem +
                                 Half(Ca().certificate_pem()));
       },
       certificate, "a certificate that cannot be read, number 2"},
      {"CertificateWithBadBase64",
       [](auto& folder) {
         folder.WriteCertificate(
             absl::StrReplaceAll(Good().certificate_pem, {{"MII", "M!I"}}));
       },
       certificate, "cannot be read"},
      {"KeyTruncated",
       [](auto& folder) { folder.WriteKey(Half(Good().key_pem)); }, key,
       "has no private key in PEM form"},
      {"CertificateMissing",
       [](auto& folder) { unlink(folder.files().certificate.c_str()); },
       certificate, "cannot be opened: No such file"},
      {"KeyMissing", [](auto& folder) { unlink(folder.files().key.c_str()); },
       key, "cannot be opened: No such file"},
      {"CertificateEmpty", [](auto& folder) { folder.WriteCertificate(""); },
       certificate, "is empty"},
      {"KeyEmpty", [](auto& folder) { folder.WriteKey(""); }, key, "is empty"},
      {"CertificateIsFolder",
       [](auto& folder) {
         unlink(folder.files().certificate.c_str());
         mkdir(folder.files().certificate.c_str(), 0700);
       },
       certificate, "is not a regular file"},
      {"KeyIsPipe",
       [](auto& folder) {
         unlink(folder.files().key.c_str());
         mkfifo(folder.files().key.c_str(), 0600);
       },
       key, "is not a regular file"},
      {"CertificateTooLarge",
       [](auto& folder) {
         folder.WriteCertificate(Good().certificate_pem +
                                 std::string(1024 * 1024, '\n'));
       },
       certificate, "is above 1 MiB"},
      {"CertificateWithZeroByte",
       [](auto& folder) {
         folder.WriteCertificate(Good().certificate_pem + std::string(1, '\0'));
       },
       certificate, "a byte of value 0"},
      {"CertificateIsKey",
       [](auto& folder) { folder.WriteCertificate(Good().key_pem); },
       certificate, "has no certificate in PEM form"},
      {"KeyIsCertificate",
       [](auto& folder) { folder.WriteKey(Good().certificate_pem); }, key,
       "has no private key in PEM form"},
      {"KeyEncrypted",
       [](auto& folder) {
         folder.WriteKey(testing::EncryptedKeyPem(Good().key_pem));
       },
       key, "is encrypted"},
      {"Expired",
       [](auto& folder) {
         folder.WritePair(With([](auto& options) {
           options.not_after = absl::Now() - absl::Seconds(1);
         }));
       },
       certificate, "expired at 20"},
      {"NotYetValid",
       [](auto& folder) {
         folder.WritePair(With([](auto& options) {
           options.not_before = absl::Now() + absl::Minutes(1);
         }));
       },
       certificate, "is not valid before 20"},
      {"KeyTooWeak",
       [](auto& folder) {
         folder.WritePair(
             With([](auto& options) { options.key_type = KeyType::kRsa512; }));
       },
       certificate, "cannot be used: ee key too small"},
      {"ForCallersOnly",
       [](auto& folder) {
         folder.WritePair(With(
             [](auto& options) { options.extended_key_usage = "clientAuth"; }));
       },
       certificate, "is not for servers"},
  };
}

std::vector<Unfit> UnfitLists() {
  const char* client_ca = "--tls-client-ca-file";
  const char* client_crl = "--tls-client-crl-file";
  return {
      {"ClientCaEmpty", [](auto& folder) { folder.WriteClientCa(""); },
       client_ca, "is empty"},
      {"ClientCaIsText", [](auto& folder) { folder.WriteClientCa("no PEM\n"); },
       client_ca, "has no certificate in PEM form"},
      {"ClientCaTruncated",
       [](auto& folder) {
         folder.WriteClientCa(Ca().certificate_pem() +
                              Half(Ca().certificate_pem()));
       },
       client_ca, "cannot be read, number 2"},
      {"ClientCaExpired",
       [](auto& folder) {
         folder.WriteClientCa(With([](auto& options) {
                                options.not_after =
                                    absl::Now() - absl::Seconds(1);
                              }).certificate_pem);
       },
       client_ca, "has only expired certificates"},
      {"CrlWithoutClientCa",
       [](auto& folder) { folder.WriteClientCrl(Ca().Crl({})); }, client_crl,
       "needs --tls-client-ca-file"},
      {"CrlIsCertificate",
       [](auto& folder) {
         folder.WriteClientCa(Ca().certificate_pem());
         folder.WriteClientCrl(Ca().certificate_pem());
       },
       client_crl, "has no revocation list in PEM form"},
      {"CrlOfAnotherAuthority",
       [](auto& folder) {
         folder.WriteClientCa(Ca().certificate_pem());
         folder.WriteClientCrl(CertificateAuthority("another").Crl({}));
       },
       client_crl, "that no CA of --tls-client-ca-file has signed"},
      {"CrlOfAnotherAuthorityOfTheSameName",
       [](auto& folder) {
         folder.WriteClientCa(Ca().certificate_pem());
         folder.WriteClientCrl(CertificateAuthority("acme servers").Crl({}));
       },
       client_crl, "that no CA of --tls-client-ca-file has signed"},
      {"CrlOfChangesOnly",
       [](auto& folder) {
         folder.WriteClientCa(Ca().certificate_pem());
         CrlOptions options;
         options.is_delta = true;
         folder.WriteClientCrl(Ca().Crl({}, options));
       },
       client_crl, "only complete lists"},
  };
}

std::string NameOf(const ::testing::TestParamInfo<Unfit>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Pairs, UnfitCertificateTest,
                         ::testing::ValuesIn(UnfitPairs()), NameOf);
INSTANTIATE_TEST_SUITE_P(Lists, UnfitCertificateTest,
                         ::testing::ValuesIn(UnfitLists()), NameOf);

}  // namespace
}  // namespace dedupe
