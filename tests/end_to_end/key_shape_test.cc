// Keys and client ids are bytes: nothing is trimmed, decoded, normalised, cut
// or joined on the way, and nobody sees what belongs to another client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/still_serving.h"

namespace dedupe::testing {
namespace {

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

class KeyShapeTest : public StillServingTest {
 protected:
  // Each is to be a key of its own. Completed under its own name, and read
  // back once all are there.
  void ExpectStrangers(const std::vector<std::string>& suffixes) {
    for (const std::string& suffix : suffixes) {
      const v1::BeginRequest begin = BeginOf(Key(suffix), "attempt-1");
      const BeginReply lease = client().Begin(begin);
      ASSERT_THAT(lease, IsStarted()) << suffix;
      EXPECT_FALSE(lease.message.started().resumed()) << suffix;
      ASSERT_THAT(client().Complete(CompleteOf(
                      begin, lease.message.started().fence(), suffix)),
                  IsOk());
    }
    for (const std::string& suffix : suffixes) {
      EXPECT_THAT(client().Begin(BeginOf(Key(suffix), "attempt-2")),
                  IsReplayOf(suffix));
    }
  }
};

// The same to the eye, in composed and decomposed form, and in another script.
TEST_F(KeyShapeTest, LookAlikesAreStrangers) {
  ExpectStrangers({"\xc3\xa9", "e\xcc\x81", "a", "\xd0\xb0", "A"});
}

TEST_F(KeyShapeTest, NothingIsDecodedOrEncoded) {
  ExpectStrangers({"a/b", "a%2Fb", "a%2fb", "a b", "a+b", "a%20b", "a\\b"});
}

TEST_F(KeyShapeTest, NothingIsTrimmed) {
  ExpectStrangers({"", " ", "  ", "x", "x ", "\xc2\xa0"});
}

TEST_F(KeyShapeTest, WhatOthersWouldExecuteIsPlainData) {
  ExpectStrangers({"'; DROP TABLE dedupe.record; --", "%n%s%p", "../../x",
                   "{\"a\",NULL}", "$1", "\\000", "\\x41", "NULL", "\"",
                   "<script>", "\xf0\x9f\x92\xa3"});
}

TEST_F(KeyShapeTest, DigitsAndPunctuationAreNotCollated) {
  ExpectStrangers({"1-1", "11", "1.1", "1_1", "01-1"});
}

TEST_F(KeyShapeTest, SpacesAloneAreAKey) {
  v1::BeginRequest request = BeginOf("   ", "attempt-1");
  request.set_client_id(Key());
  EXPECT_THAT(client().Begin(request), IsStarted());
  request.set_key("  ");
  EXPECT_THAT(client().Begin(request), IsStarted());
}

// Two fields that some layer joins must not meet.
TEST_F(KeyShapeTest, SeparatorsDoNotMovePartsAcross) {
  std::set<std::pair<std::string, std::string>> pairs = {
      {"a:b", "c"}, {"a", "b:c"}, {"a/", "b"}, {"a", "/b"}, {"a", "a"}};
  std::mt19937 random(7);
  const auto part = [&random] {
    std::string text(1 + random() % 6, 'a');
    for (char& c : text) c = "a:/|"[random() % 4];
    return text;
  };
  while (pairs.size() < 1000) pairs.emplace(part(), part());

  for (const auto& [left, right] : pairs) {
    v1::BeginRequest request = BeginOf(right, "attempt-1");
    request.set_client_id(left);
    const BeginReply reply = client().Begin(request);
    ASSERT_THAT(reply, IsStarted()) << left << " and " << right;
    EXPECT_FALSE(reply.message.started().resumed()) << left << " and " << right;
  }
}

// One client must never be handed what another has stored under the same key.
TEST_F(KeyShapeTest, OtherClientsResponseNeverCrosses) {
  v1::BeginRequest ours = BeginOf(Key(), "attempt-1");
  const BeginReply lease = client().Begin(ours);
  ASSERT_THAT(client().Complete(
                  CompleteOf(ours, lease.message.started().fence(), "secretA")),
              IsOk());
  v1::BeginRequest theirs = BeginOf(Key(), "attempt-1");
  theirs.set_client_id("globex");

  EXPECT_EQ(client().StateOf(theirs), v1::RECORD_STATE_ABSENT);
  const BeginReply their_lease = client().Begin(theirs);
  ASSERT_THAT(their_lease, IsStarted());
  EXPECT_FALSE(their_lease.message.started().taken_over());
  const LookupReply their_view = client().Lookup(LookupOf(theirs));
  EXPECT_EQ(their_view.message.state(), v1::RECORD_STATE_IN_PROGRESS);
  EXPECT_EQ(their_view.message.ShortDebugString().find("secretA"),
            std::string::npos);
  // Nor may one settle the other's.
  EXPECT_THAT(
      client().Release(ReleaseOf(theirs, lease.message.started().fence())),
      IsRefused(grpc::StatusCode::FAILED_PRECONDITION, "LEASE_LOST"));
  EXPECT_EQ(client().Lookup(LookupOf(ours)).message.response().body(),
            "secretA");
}

// What a parameter passed as a C string would do: the second would be told
// in_progress.
TEST_F(KeyShapeTest, KeyIsNotCutAtNul) {
  EXPECT_THAT(
      client().Begin(BeginOf(Key(std::string("pay\0X", 5)), "attempt-1")),
      IsRefused(kInvalid, "KEY_CHARACTERS"));
  EXPECT_THAT(client().Begin(BeginOf(Key("pay"), "attempt-2")), IsStarted());
  v1::BeginRequest request = BeginOf(Key("pay2"), "attempt-1");
  request.set_client_id(std::string("acme\0x", 6));
  EXPECT_THAT(client().Begin(request),
              IsRefused(kInvalid, "CLIENT_ID_CHARACTERS"));
  request.set_client_id("acme");
  EXPECT_THAT(client().Begin(request), IsStarted());
}

// Index entries have a limit of their own that compressible text hides.
TEST_F(KeyShapeTest, LongestKeyOfRandomCharactersFits) {
  std::mt19937 random(11);
  const auto text = [&random](size_t bytes) {
    std::string made(bytes, ' ');
    for (char& c : made) c = static_cast<char>('!' + random() % 94);
    return made;
  };
  v1::BeginRequest request = BeginOf(text(255), "attempt-1");
  request.set_client_id(text(255));
  EXPECT_THAT(client().Begin(request), IsStarted());
  for (const size_t bytes : {256u, 1024u, 2704u, 2705u, 8192u}) {
    request.set_key(text(bytes));
    EXPECT_THAT(client().Begin(request), IsRefused(kInvalid, "KEY_TOO_LONG"));
    request.set_key(std::string(bytes, 'a'));
    EXPECT_THAT(client().Begin(request), IsRefused(kInvalid, "KEY_TOO_LONG"));
  }
}

TEST_F(KeyShapeTest, ForgottenFingerprintLetsAnotherRequestIn) {
  const v1::BeginRequest first = BeginOf(Key(), "attempt-1");
  v1::ReleaseRequest release =
      ReleaseOf(first, client().Begin(first).message.started().fence());
  release.set_forget_fingerprint(true);
  ASSERT_THAT(client().Release(release), IsOk());

  v1::BeginRequest other = BeginOf(Key(), "attempt-2");
  other.set_fingerprint("another request");
  other.set_operation("POST /v1/refunds");
  EXPECT_THAT(client().Begin(other), IsStarted());
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-3")), IsMismatch());
}

}  // namespace
}  // namespace dedupe::testing
