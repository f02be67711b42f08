// The bounds that the library's headers repeat, for programs that know nothing
// of the server, are the server's.
#include "server/service/limits.h"

#include <gtest/gtest.h>

#include "dedupe/journal.h"
#include "dedupe/key.h"
#include "dedupe/response.h"

namespace dedupe::client {
namespace {

TEST(LimitsTest, AreTheServers) {
  EXPECT_EQ(kClientIdBytesMax, ::dedupe::kClientIdBytesMax);
  EXPECT_EQ(kKeyBytesMax, ::dedupe::kKeyBytesMax);
  EXPECT_EQ(kAttemptIdBytesMax, ::dedupe::kAttemptIdBytesMax);
  EXPECT_EQ(kBodyBytesMax, ::dedupe::kBodyBytesMax);
  EXPECT_EQ(kHeadersMax, ::dedupe::kHeadersMax);
  EXPECT_EQ(kHeadersBytesMax, ::dedupe::kHeadersBytesMax);
  // Any fingerprint that the server takes fits into the journal.
  EXPECT_EQ(kJournalFingerprintBytesMax, ::dedupe::kFingerprintBytesMax);
}

}  // namespace
}  // namespace dedupe::client
