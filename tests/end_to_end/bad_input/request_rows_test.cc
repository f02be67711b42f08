#include "tests/end_to_end/bad_input/request_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dedupe::testing {
namespace {

template <typename Message>
std::string Spoilt(Message message, void (*spoil)(Message&)) {
  spoil(message);
  return message.SerializeAsString();
}

}  // namespace

RequestRowTest::Request RequestRowTest::Make(const Spoil& spoil,
                                             const Holding& held) {
  struct Maker {
    const v1::BeginRequest good = BeginOf(Key("/new"), "attempt-2");
    const v1::BeginRequest& begin;
    int64_t fence;

    Request operator()(void (*change)(v1::BeginRequest&)) const {
      return {MethodPath("Begin"), Spoilt(good, change)};
    }
    Request operator()(void (*change)(v1::CompleteRequest&)) const {
      return {MethodPath("Complete"),
              Spoilt(CompleteOf(begin, fence, "done"), change)};
    }
    Request operator()(void (*change)(v1::ExtendRequest&)) const {
      return {MethodPath("Extend"), Spoilt(ExtendOf(begin, fence), change)};
    }
    Request operator()(void (*change)(v1::ReleaseRequest&)) const {
      return {MethodPath("Release"), Spoilt(ReleaseOf(begin, fence), change)};
    }
    Request operator()(void (*change)(v1::LookupRequest&)) const {
      return {MethodPath("Lookup"), Spoilt(LookupOf(begin), change)};
    }
    Request operator()(const Bytes& bytes) const {
      return {bytes.path, bytes.spoil(good.SerializeAsString())};
    }
  };
  return std::visit(Maker{.begin = held.begin, .fence = held.started.fence()},
                    spoil);
}

TEST_P(RefusedRequestTest, IsRefusedWithItsReasonAndLeavesNoTrace) {
  const Holding held = Hold();
  const Request request = Make(GetParam().spoil, held);
  const std::string moment = Now();
  const RawReply reply =
      CallRaw(client().channel(), request.path, request.bytes);

  EXPECT_THAT(reply, IsRefused(GetParam().code, GetParam().reason));
  const ErrorDetails details = DetailsOf(reply.status);
  EXPECT_EQ(details.field, GetParam().field);
  EXPECT_EQ(details.domain, details.reason.empty() ? "" : "dedupe");
  ExpectHarmless(reply.status, Key());
  EXPECT_EQ(CountChangesSince(moment), "0");
  EXPECT_THAT(Complete(held, "done"), IsOk());
}

TEST_P(AcceptedRequestTest, IsServedAsItStands) {
  const Request request = Make(GetParam().spoil, Hold());
  const RawReply reply =
      CallRaw(client().channel(), request.path, request.bytes);
  ASSERT_THAT(reply, IsOk());
  if (request.path != MethodPath("Begin")) return;

  v1::BeginResponse response;
  ASSERT_TRUE(response.ParseFromString(reply.message));
  EXPECT_TRUE(response.has_started());
  EXPECT_FALSE(response.started().resumed());
  v1::BeginRequest begin;
  ASSERT_TRUE(begin.ParseFromString(request.bytes));
  EXPECT_EQ(client().StateOf(begin), v1::RECORD_STATE_IN_PROGRESS);
}

}  // namespace dedupe::testing
