// Bytes that no client library would send, and calls that break off: refused
// in a way that says whose fault it is, with the server none the worse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/http2_peer.h"
#include "tests/end_to_end/still_serving.h"

namespace dedupe::testing {
namespace {

using ::testing::AnyOf;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
const char* const kMethods[] = {"Begin", "Complete", "Extend", "Release",
                                "Lookup"};

// Protobuf's tag of a field with a length.
std::string Field(int number, const std::string& bytes) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  size_t length = bytes.size();
  for (; length >= 128; length /= 128) {
    text += static_cast<char>(length % 128 | 128);
  }
  return text + static_cast<char>(length) + bytes;
}

class BadMessageTest : public StillServingTest {
 protected:
  RawReply Send(const std::string& method, const std::string& bytes) {
    return CallRaw(client().channel(), MethodPath(method), bytes);
  }
};

TEST_F(BadMessageTest, EmptyMessageIsRefused) {
  for (const char* method : kMethods) {
    EXPECT_THAT(Send(method, ""),
                IsRefused(kInvalid, std::string(method) == "Complete"
                                        ? "RESPONSE_MISSING"
                                        : "CLIENT_ID_EMPTY"))
        << method;
  }
}

TEST_F(BadMessageTest, TruncatedMessageIsRefusedWhereverItEnds) {
  const std::string whole = BeginOf(Key(), "attempt-1").SerializeAsString();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(Send("Begin", whole.substr(0, bytes)).status.error_code(),
              kInvalid)
        << bytes;
  }
  EXPECT_EQ(CountRows(), "0");
}

// Some of it parses, as a message without any field that we know.
TEST_F(BadMessageTest, RandomBytesAreRefused) {
  std::mt19937 random(1);
  int malformed = 0;
  for (int round = 0; round < 100; ++round) {
    std::string bytes(1 + random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    for (const char* method : kMethods) {
      const RawReply reply = Send(method, bytes);
      EXPECT_EQ(reply.status.error_code(), kInvalid);
      malformed += ReasonOf(reply.status) == "MESSAGE_MALFORMED" ? 1 : 0;
    }
  }
  EXPECT_GT(malformed, 400);
}

TEST_F(BadMessageTest, WhatProtobufRefusesIsMalformed) {
  const std::string nested(200, '\x7b');  // The start of a group, 200 deep.
  const std::string overflow = "\x08" + std::string(11, '\xff');
  const std::string too_long = "\x12\xff\xff\xff\xff\x07key";
  for (const std::string& bytes : {nested, overflow, too_long}) {
    for (const char* method : kMethods) {
      EXPECT_THAT(Send(method, bytes),
                  IsRefused(kInvalid, "MESSAGE_MALFORMED"));
    }
  }
}

// Not INTERNAL, which gRPC itself would say and clients would retry.
TEST_F(BadMessageTest, TextThatIsNotUtf8IsMalformed) {
  v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  v1::CompleteRequest complete = CompleteOf(begin, 1, "body");
  for (const std::string& text :
       {std::string("\xff\xfe"), std::string("\xed\xa0\x80"),
        std::string("\xc0\x80"), std::string("\xf5\x80\x80\x80"),
        std::string("\xc3"), std::string("a\x80z")}) {
    // client_id, key, operation, attempt_id.
    for (const int field : {1, 2, 3, 5}) {
      EXPECT_THAT(Send("Begin", begin.SerializeAsString() + Field(field, text)),
                  IsRefused(kInvalid, "MESSAGE_MALFORMED"));
    }
    // A header's name and value, within the response.
    for (const int field : {1, 2}) {
      EXPECT_THAT(Send("Complete", complete.SerializeAsString() +
                                       Field(5, Field(2, Field(field, text)))),
                  IsRefused(kInvalid, "MESSAGE_MALFORMED"));
    }
  }
  EXPECT_EQ(CountRows(), "0");
}

TEST_F(BadMessageTest, FieldsOfALaterVersionAreDropped) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const RawReply reply =
      Send("Begin", begin.SerializeAsString() + Field(15, "of the future"));
  v1::BeginResponse response;
  ASSERT_TRUE(response.ParseFromString(reply.message));
  EXPECT_TRUE(response.has_started());
  EXPECT_EQ(SqlValue(Shared().url(),
                     absl::StrCat("SELECT count(*) FROM dedupe.record AS r"
                                  " WHERE key = '",
                                  Key(), "' AND r::text LIKE '%future%'")),
            "0");
}

TEST_F(BadMessageTest, MessageOfAMebibyteIsTheMost) {
  const v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
  const std::string bytes = begin.SerializeAsString();
  // An unknown field makes up the size: its tag and length take four bytes.
  const size_t room = (1 << 20) - bytes.size() - 4;
  EXPECT_TRUE(
      Send("Begin", bytes + Field(15, std::string(room, 'x'))).status.ok());
  EXPECT_THAT(Send("Begin", bytes + Field(15, std::string(room + 1, 'x'))),
              IsRefused(grpc::StatusCode::RESOURCE_EXHAUSTED, ""));
}

TEST_F(BadMessageTest, UnknownMethodsAreUnimplemented) {
  for (const char* path :
       {"/dedupe.v1.DedupeService/Steal", "/dedupe.v2.DedupeService/Begin",
        "/nothing/at/all", "/", "/dedupe.v1.DedupeService/begin"}) {
    EXPECT_EQ(CallRaw(client().channel(), path, "").status.error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << path;
  }
}

// gRPC bounds a message before it is decompressed: a small one could fill the
// memory.
TEST_F(BadMessageTest, CompressedMessageIsRefused) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
    begin.set_operation(std::string(100, 'o'));
    v1::BeginResponse response;
    const grpc::Status status =
        client().stub().Begin(&context, begin, &response);
    EXPECT_THAT(status.error_code(),
                AnyOf(grpc::StatusCode::UNIMPLEMENTED, kInvalid))
        << Describe(status);
  }
  EXPECT_EQ(CountRows(), "0");
}

// A client that may compress and finds a message too small for it says gzip and
// sends it plain. Refused or served, but never refused and served.
TEST_F(BadMessageTest, PlainMessageOfACompressingClientIsServedOrHasNoEffect) {
  for (int i = 0; i < 50; ++i) {
    const v1::BeginRequest begin = BeginOf(Key(absl::StrCat("/", i)), "a");
    Http2Peer peer(Shared().server().address());
    peer.SendPreface();
    peer.SendHeaders(MethodPath("Begin"), {{"grpc-encoding", "gzip"}});
    peer.SendData(GrpcFrame(begin.SerializeAsString()));
    const Http2Peer::Outcome outcome = peer.Read();
    ASSERT_TRUE(outcome.status.has_value());
    EXPECT_EQ(client().StateOf(begin), *outcome.status == grpc::OK
                                           ? v1::RECORD_STATE_IN_PROGRESS
                                           : v1::RECORD_STATE_ABSENT)
        << "answered with code " << *outcome.status;
  }
}

TEST_F(BadMessageTest, MetadataAboveEightKibibytesIsRefused) {
  // A connection of its own, because the server may close it.
  Client stranger(Shared().server().address());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(5)));
  context.AddMetadata("x-large", std::string(9 * 1024, 'x'));
  v1::BeginResponse response;
  const grpc::Status status =
      stranger.stub().Begin(&context, BeginOf(Key(), "attempt-1"), &response);
  EXPECT_THAT(status.error_code(), AnyOf(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                         grpc::StatusCode::UNAVAILABLE));
  EXPECT_EQ(CountRows(), "0");
  absl::PrintF("9 KiB of metadata: code %d\n", status.error_code());
}

class DeadlineTest : public StillServingTest {};

TEST_F(DeadlineTest, NoneAndALongOneAreBothServed) {
  grpc::ClientContext without;
  v1::BeginResponse response;
  EXPECT_TRUE(client()
                  .stub()
                  .Begin(&without, BeginOf(Key("/none"), "a"), &response)
                  .ok());
  EXPECT_THAT(client().Begin(BeginOf(Key("/hour"), "a"), absl::Hours(1)),
              IsStarted());
  EXPECT_THAT(
      client().Begin(BeginOf(Key("/century"), "a"), absl::Hours(24 * 36'500)),
      IsStarted());
}

TEST_F(DeadlineTest, CallWhoseTimeIsOverLeavesNoTrace) {
  EXPECT_EQ(client()
                .Begin(BeginOf(Key(), "attempt-1"), absl::Seconds(-1))
                .status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(CountRows(), "0");
}

// Whether it took effect or not, the same attempt finds the key its own.
TEST_F(DeadlineTest, CancelledCallCanBeRepeated) {
  for (int i = 0; i < 50; ++i) {
    const v1::BeginRequest begin = BeginOf(Key(absl::StrCat("/", i)), "a");
    PendingBegin pending(client(), begin);
    absl::SleepFor(absl::Microseconds(20 * i));
    pending.Cancel();
    EXPECT_THAT(pending.reply().status.error_code(),
                AnyOf(grpc::StatusCode::OK, grpc::StatusCode::CANCELLED));
    EXPECT_THAT(client().Begin(begin), IsStarted());
  }
}

// What the frames of a call may do wrong.
struct WireCase {
  const char* name;
  void (*send)(Http2Peer& peer, const std::string& message);
  // grpc-status; -1 for none, the connection or the call being cut.
  std::vector<int> statuses;
  // Records that it leaves.
  const char* rows;

  friend void PrintTo(const WireCase& self, std::ostream* out) {
    *out << self.name;
  }
};

class BadWireTest : public StillServingTest,
                    public ::testing::WithParamInterface<WireCase> {};

TEST_P(BadWireTest, EndsTheCallAndNothingElse) {
  Http2Peer peer(Shared().server().address());
  GetParam().send(peer, BeginOf(Key(), "attempt-1").SerializeAsString());
  const Http2Peer::Outcome outcome = peer.Read();

  EXPECT_TRUE(outcome.status.has_value() || outcome.stream_was_reset ||
              outcome.connection_was_closed)
      << "no answer at all";
  EXPECT_THAT(GetParam().statuses,
              ::testing::Contains(outcome.status.value_or(-1)));
  EXPECT_EQ(CountRows(), GetParam().rows);
}

const std::string kBegin = MethodPath("Begin");

INSTANTIATE_TEST_SUITE_P(
    All, BadWireTest,
    ::testing::Values(
        // That what follows differs by its fault alone.
        WireCase{"NoFault",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin);
                   peer.SendData(GrpcFrame(message));
                 },
                 {0},
                 "1"},
        WireCase{"NoMessage",
                 [](Http2Peer& peer, const std::string&) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin, {}, EndStream::kYes);
                 },
                 {grpc::INVALID_ARGUMENT},
                 "0"},
        WireCase{"LessThanAnnounced",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin);
                   peer.SendData(GrpcFrameOfLength(message, 4096));
                 },
                 {grpc::INVALID_ARGUMENT, grpc::INTERNAL, -1},
                 "0"},
        WireCase{"MoreThanAllowedAnnounced",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin);
                   peer.SendData(GrpcFrameOfLength(message, 0xffffffff));
                 },
                 {grpc::INVALID_ARGUMENT, grpc::RESOURCE_EXHAUSTED, -1},
                 "0"},
        // One of them counts, if any.
        WireCase{"TwoMessages",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin);
                   peer.SendData(GrpcFrame(message) + GrpcFrame(message));
                 },
                 {grpc::OK, grpc::INTERNAL, grpc::UNIMPLEMENTED},
                 "1"},
        WireCase{"CorruptGzipWithoutEncoding",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin);
                   peer.SendData(GrpcFrame("\x1f\x8b\x08" + message, 1));
                 },
                 {grpc::INTERNAL, grpc::INVALID_ARGUMENT},
                 "0"},
        // As if there were none.
        WireCase{"TimeoutMalformed",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin, {{"grpc-timeout", "soon"}});
                   peer.SendData(GrpcFrame(message));
                 },
                 {grpc::OK},
                 "1"},
        WireCase{"TimeoutPast",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendPreface();
                   peer.SendHeaders(kBegin, {{"grpc-timeout", "1n"}});
                   absl::SleepFor(absl::Milliseconds(20));
                   peer.SendData(GrpcFrame(message));
                 },
                 {grpc::DEADLINE_EXCEEDED, grpc::CANCELLED, -1},
                 "0"},
        WireCase{
            "BinaryHeaderNotBase64",
            [](Http2Peer& peer, const std::string&) {
              peer.SendPreface();
              peer.SendHeaders(kBegin, {{"x-bin", "!!!"}}, EndStream::kYes);
            },
            {grpc::UNAVAILABLE, grpc::INTERNAL, -1},
            "0"},
        WireCase{"OldHttp",
                 [](Http2Peer& peer, const std::string&) {
                   peer.SendBytes(
                       "POST /dedupe.v1.DedupeService/Begin HTTP/1.1\r\n"
                       "Host: localhost\r\nContent-Length: 0\r\n\r\n");
                 },
                 {-1},
                 "0"},
        WireCase{"Noise",
                 [](Http2Peer& peer, const std::string& message) {
                   peer.SendBytes(std::string(100, '\xff') + message);
                 },
                 {-1},
                 "0"}),
    [](const auto& test) { return test.param.name; });

// A caller may go away in the middle of everything.
TEST_F(BadMessageTest, ConnectionsCutInMidCallAreHarmless) {
  const std::string message = BeginOf(Key(), "attempt-1").SerializeAsString();
  for (size_t bytes = 0; bytes <= message.size(); bytes += 4) {
    Http2Peer peer(Shared().server().address());
    peer.SendPreface();
    peer.SendHeaders(kBegin);
    peer.SendData(GrpcFrame(message).substr(0, bytes), EndStream::kNo);
  }
  EXPECT_THAT(client().Begin(BeginOf(Key(), "attempt-1")), IsStarted());
}

}  // namespace
}  // namespace dedupe::testing
