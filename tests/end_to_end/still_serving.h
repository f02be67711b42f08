// The base of tests that send what they should not: whatever it was, the same
// process must serve the next caller.
#ifndef DEDUPE_TESTS_END_TO_END_STILL_SERVING_H_
#define DEDUPE_TESTS_END_TO_END_STILL_SERVING_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/end_to_end/deployment.h"

namespace dedupe::testing {

class StillServingTest : public EndToEndTest {
 protected:
  void SetUp() override { pid_ = Shared().server().process().pid(); }

  void TearDown() override {
    EXPECT_TRUE(Shared().server().process().running());
    EXPECT_EQ(Shared().server().process().pid(), pid_);
    EXPECT_THAT(client().Begin(BeginOf(Key("/afterwards"), "attempt-1")),
                IsStarted());
  }

  // A definite refusal in few words, none of them the caller's.
  static void ExpectHarmless(const grpc::Status& status,
                             const std::string& secret) {
    EXPECT_LE(status.error_message().size(), 1024u);
    EXPECT_EQ(status.error_message().find(secret), std::string::npos);
    EXPECT_EQ(status.error_details().find(secret), std::string::npos);
  }

  // Of the records whose keys begin with this test's name.
  static std::string CountRows() {
    return SqlValue(Shared().url(),
                    absl::StrCat("SELECT count(*) FROM dedupe.record WHERE"
                                 " starts_with(key, '",
                                 Key(), "')"));
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_STILL_SERVING_H_
