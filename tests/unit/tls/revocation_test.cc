// Which certificates of callers are still good.
#include "server/tls/revocation.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/certificates.h"

namespace dedupe {
namespace {

using testing::CertificateAndKey;
using testing::CertificateAuthority;
using testing::CertificateOptions;
using testing::CrlOptions;

class RevocationTest : public ::testing::Test {
 protected:
  CertificateVerdict Judge(const std::string& pem) {
    return revocation_.Judge(pem, absl::Now());
  }

  CertificateAuthority ca_{"acme callers"};
  const std::string shop_ = ca_.Issue().certificate_pem;
  const std::string bank_ = ca_.Issue().certificate_pem;
  Revocation revocation_;
};

TEST_F(RevocationTest, NothingIsRevokedWithoutLists) {
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kGood);
}

TEST_F(RevocationTest, ListCountsAtOnceForWhatIsOnIt) {
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kGood);
  revocation_.Replace(ca_.Crl({shop_}), ca_.certificate_pem());
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kRevoked);
  EXPECT_EQ(Judge(bank_), CertificateVerdict::kGood);
  revocation_.Replace(ca_.Crl({bank_}), ca_.certificate_pem());
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kGood);
  EXPECT_EQ(Judge(bank_), CertificateVerdict::kRevoked);
  revocation_.Replace("", ca_.certificate_pem());
  EXPECT_EQ(Judge(bank_), CertificateVerdict::kGood);
}

TEST_F(RevocationTest, ListOutOfDateCounts) {
  CrlOptions options;
  options.next_update = absl::Now() - absl::Hours(1);
  revocation_.Replace(ca_.Crl({shop_}, options), ca_.certificate_pem());
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kRevoked);
}

TEST_F(RevocationTest, ListOfAnotherIssuerDoesNotCount) {
  CertificateAuthority other("other callers");
  revocation_.Replace(other.Crl({shop_}), ca_.certificate_pem());
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kGood);
}

TEST_F(RevocationTest, AllListsOfTheTextCount) {
  CertificateAuthority other("other callers");
  const std::string partner = other.Issue().certificate_pem;
  revocation_.Replace(ca_.Crl({shop_}) + other.Crl({partner}),
                      ca_.certificate_pem() + other.certificate_pem());
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kRevoked);
  EXPECT_EQ(Judge(partner), CertificateVerdict::kRevoked);
}

TEST_F(RevocationTest, RevokedAuthorityRevokesWhatItIssued) {
  CertificateAuthority below = ca_.IssueAuthority("acme shops");
  const std::string chain =
      below.Issue().certificate_pem + below.certificate_pem();
  EXPECT_EQ(Judge(chain), CertificateVerdict::kGood);
  revocation_.Replace(ca_.Crl({below.certificate_pem()}),
                      ca_.certificate_pem());
  EXPECT_EQ(Judge(chain), CertificateVerdict::kRevoked);
}

// Also where the caller leaves it out.
TEST_F(RevocationTest, RevokedAuthorityCountsThoughItIsNotSent) {
  CertificateAuthority below = ca_.IssueAuthority("acme shops");
  const std::string leaf = below.Issue().certificate_pem;
  revocation_.Replace(ca_.Crl({below.certificate_pem()}),
                      ca_.certificate_pem() + below.certificate_pem());
  EXPECT_EQ(Judge(leaf), CertificateVerdict::kRevoked);
}

// As a resumed session shows it.
TEST_F(RevocationTest, LeafAloneIsJudgedByWhatWasSentBefore) {
  CertificateAuthority below = ca_.IssueAuthority("acme shops");
  const std::string leaf = below.Issue().certificate_pem;
  revocation_.Replace(ca_.Crl({bank_}), ca_.certificate_pem());
  EXPECT_EQ(Judge(leaf), CertificateVerdict::kIncomplete);
  EXPECT_EQ(Judge(leaf + below.certificate_pem()), CertificateVerdict::kGood);
  EXPECT_EQ(Judge(leaf), CertificateVerdict::kGood);
  revocation_.Replace(ca_.Crl({below.certificate_pem()}),
                      ca_.certificate_pem());
  EXPECT_EQ(Judge(leaf), CertificateVerdict::kRevoked);
}

TEST_F(RevocationTest, ClientCaCanBeAnAuthorityInBetween) {
  CertificateAuthority below = ca_.IssueAuthority("acme shops");
  const std::string leaf = below.Issue().certificate_pem;
  revocation_.Replace(below.Crl({bank_}), below.certificate_pem());
  EXPECT_EQ(Judge(leaf), CertificateVerdict::kGood);
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kIncomplete);
}

TEST_F(RevocationTest, ValidityIsTheLeafs) {
  CertificateOptions options;
  options.not_before = absl::FromUnixSeconds(2000000000);
  options.not_after = absl::FromUnixSeconds(2000000100);
  const std::string pem = ca_.Issue(options).certificate_pem + shop_;
  const auto judge_at = [&](int64_t second) {
    return revocation_.Judge(pem, absl::FromUnixSeconds(second));
  };
  EXPECT_EQ(judge_at(1999999999), CertificateVerdict::kNotYetValid);
  EXPECT_EQ(judge_at(2000000000), CertificateVerdict::kGood);
  EXPECT_EQ(judge_at(2000000099), CertificateVerdict::kGood);
  EXPECT_EQ(judge_at(2000000100), CertificateVerdict::kExpired);
}

TEST_F(RevocationTest, WhatCannotBeReadIsMalformed) {
  EXPECT_EQ(Judge(""), CertificateVerdict::kMalformed);
  EXPECT_EQ(Judge("no PEM"), CertificateVerdict::kMalformed);
  EXPECT_EQ(Judge(shop_.substr(0, shop_.size() / 2)),
            CertificateVerdict::kMalformed);
}

TEST_F(RevocationTest, TextThatIsNoListChangesNothing) {
  revocation_.Replace(ca_.Crl({shop_}), ca_.certificate_pem());
  revocation_.Replace("no list", ca_.certificate_pem());
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kRevoked);
}

TEST_F(RevocationTest, RemembersNoMoreThanItsBound) {
  revocation_.Replace(ca_.Crl({shop_}), ca_.certificate_pem());
  // Each is another text, of the same certificate.
  for (int i = 0; i < 5000; ++i) {
    revocation_.Judge(absl::StrCat("# ", i, "\n", bank_), absl::Now());
    ASSERT_LE(revocation_.remembered(), Revocation::kRememberedMax);
  }
  EXPECT_EQ(Judge(shop_), CertificateVerdict::kRevoked);
}

TEST_F(RevocationTest, JudgesWhileListsAreReplaced) {
  const std::string lists[] = {ca_.Crl({shop_}), ca_.Crl({shop_, bank_})};
  revocation_.Replace(lists[0], ca_.certificate_pem());
  std::thread replacing([&] {
    for (int i = 0; i < 500; ++i)
      revocation_.Replace(lists[i % 2], ca_.certificate_pem());
  });
  std::vector<std::thread> judging;
  for (int i = 0; i < 3; ++i) {
    judging.emplace_back([&] {
      for (int j = 0; j < 2000; ++j) {
        ASSERT_EQ(Judge(shop_), CertificateVerdict::kRevoked);
      }
    });
  }
  for (std::thread& thread : judging) thread.join();
  replacing.join();
}

}  // namespace
}  // namespace dedupe
