// Bytes that no client library would send: frames by hand, and what is not
// HTTP/2 at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/bad_input/request_rows.h"
#include "tests/end_to_end/http2_peer.h"

namespace dedupe::testing {
namespace {

// How a call ends, or with it the whole connection.
struct End {
  std::string text;
};

End Code(grpc::StatusCode code) {
  return {absl::StrCat("code ", static_cast<int>(code))};
}
End StreamReset() { return {"stream reset"}; }
End ConnectionClosed() { return {"connection closed"}; }

End EndOf(const Http2Peer::Outcome& outcome) {
  if (outcome.status.has_value()) {
    return Code(static_cast<grpc::StatusCode>(*outcome.status));
  }
  if (outcome.stream_was_reset) return StreamReset();
  if (outcome.connection_was_closed) return ConnectionClosed();
  return {"no answer"};
}

struct WireRow {
  const char* name;
  // Is given the bytes of a good Begin.
  void (*send)(Http2Peer& peer, const std::string& message);
  End end;
  // Records that it leaves.
  const char* rows = "0";

  friend void PrintTo(const WireRow& self, std::ostream* out) {
    *out << self.name;
  }
};

class WireTest : public BadInputTest,
                 public ::testing::WithParamInterface<WireRow> {};

TEST_P(WireTest, EndsTheCallAndNothingElse) {
  Http2Peer peer(Shared().server().address());
  GetParam().send(peer, BeginOf(Key(), "attempt-1").SerializeAsString());
  EXPECT_EQ(EndOf(peer.Read()).text, GetParam().end.text);
  EXPECT_EQ(CountRows(), GetParam().rows);
}

using Message = const std::string&;
using Headers = std::vector<std::pair<std::string, std::string>>;

const std::string kBegin = MethodPath("Begin");

void Call(Http2Peer& peer, const std::string& data,
          const Headers& headers = {}) {
  peer.SendPreface();
  peer.SendHeaders(kBegin, headers);
  peer.SendData(data);
}

INSTANTIATE_TEST_SUITE_P(
    Calls, WireTest,
    ::testing::Values(
        // That what follows differs by its fault alone.
        WireRow{"NoFault",
                [](Http2Peer& peer, Message m) { Call(peer, GrpcFrame(m)); },
                Code(grpc::OK), "1"},
        WireRow{"B41TimeoutPast",
                [](Http2Peer& peer, Message m) {
                  peer.SendPreface();
                  peer.SendHeaders(kBegin, {{"grpc-timeout", "1n"}});
                  absl::SleepFor(absl::Milliseconds(20));
                  peer.SendData(GrpcFrame(m));
                },
                Code(grpc::DEADLINE_EXCEEDED)},
        WireRow{"B42TimeoutOneHour",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m), {{"grpc-timeout", "1H"}});
                },
                Code(grpc::OK), "1"},
        // As if there were none.
        WireRow{"B43TimeoutMalformed",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m), {{"grpc-timeout", "soon"}});
                },
                Code(grpc::OK), "1"},
        WireRow{"B43TimeoutWithoutUnit",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m), {{"grpc-timeout", "5"}});
                },
                Code(grpc::OK), "1"},
        WireRow{"B43TimeoutOfTooManyDigits",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m),
                       {{"grpc-timeout", "99999999999999999999H"}});
                },
                Code(grpc::OK), "1"},
        WireRow{"B43TimeoutNegative",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m), {{"grpc-timeout", "-1S"}});
                },
                Code(grpc::OK), "1"},
        WireRow{"B45LessThanAnnounced",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrameOfLength(m, 4096));
                },
                Code(grpc::INVALID_ARGUMENT)},
        WireRow{"B28MoreThanAllowedAnnounced",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrameOfLength(m, 0xffffffff));
                },
                Code(grpc::INVALID_ARGUMENT)},
        WireRow{"B46NoMessage",
                [](Http2Peer& peer, Message) {
                  peer.SendPreface();
                  peer.SendHeaders(kBegin, {}, EndStream::kYes);
                },
                Code(grpc::INVALID_ARGUMENT)},
        WireRow{"B48GzipAnnouncedAndSent",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame("\x1f\x8b\x08" + m, 1),
                       {{"grpc-encoding", "gzip"}});
                },
                Code(grpc::INVALID_ARGUMENT)},
        WireRow{"B49CompressedWithoutEncoding",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame("\x1f\x8b\x08" + m, 1));
                },
                Code(grpc::INVALID_ARGUMENT)},
        WireRow{"B49CompressedWithIdentity",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame("\x1f\x8b\x08" + m, 1),
                       {{"grpc-encoding", "identity"}});
                },
                Code(grpc::INVALID_ARGUMENT)},
        WireRow{"B49FlagOfNoMeaning",
                [](Http2Peer& peer, Message m) { Call(peer, GrpcFrame(m, 2)); },
                Code(grpc::INVALID_ARGUMENT)},
        WireRow{"B50MetadataAboveMost",
                [](Http2Peer& peer, Message m) {
                  peer.SendPreface();
                  peer.AwaitSettings();
                  peer.SendHeaders(kBegin,
                                   {{"x-large", std::string(9 * 1024, 'x')}});
                  peer.SendData(GrpcFrame(m));
                },
                Code(grpc::RESOURCE_EXHAUSTED)},
        // gRPC's own bound until then is larger: 16 MiB.
        WireRow{"B50MetadataAboveMostBeforeSettingsAreAccepted",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m),
                       {{"x-large", std::string(9 * 1024, 'x')}});
                },
                Code(grpc::OK), "1"},
        WireRow{"B50MetadataOfAlmostMost",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m),
                       {{"x-large", std::string(7 * 1024, 'x')}});
                },
                Code(grpc::OK), "1"},
        WireRow{"B51BinaryHeaderNotBase64",
                [](Http2Peer& peer, Message m) {
                  Call(peer, GrpcFrame(m), {{"x-bin", "!!!"}});
                },
                Code(grpc::UNAVAILABLE)}),
    kRowName);

INSTANTIATE_TEST_SUITE_P(
    Connections, WireTest,
    ::testing::Values(
        WireRow{"B54OldHttp",
                [](Http2Peer& peer, Message) {
                  peer.SendBytes(
                      "POST /dedupe.v1.DedupeService/Begin HTTP/1.1\r\n"
                      "Host: localhost\r\nContent-Length: 0\r\n\r\n");
                },
                ConnectionClosed()},
        // A record of 512 bytes with the start of a ClientHello.
        WireRow{"B54TlsHello",
                [](Http2Peer& peer, Message) {
                  const std::string hello =
                      std::string(
                          "\x16\x03\x01\x02\x00\x01\x00\x01\xfc"
                          "\x03\x03",
                          11) +
                      std::string(32, 'r');
                  peer.SendBytes(hello + std::string(517 - hello.size(), 0));
                },
                ConnectionClosed()},
        WireRow{"B54Noise",
                [](Http2Peer& peer, Message m) {
                  peer.SendBytes(std::string(100, '\xff') + m);
                },
                ConnectionClosed()},
        WireRow{"B54NoiseForFrames",
                [](Http2Peer& peer, Message m) {
                  peer.SendPreface();
                  peer.SendBytes(std::string(100, '\xff') + m);
                },
                ConnectionClosed()}),
    kRowName);

// The second would have made a record of its own.
TEST_F(BadInputTest, B47OfTwoMessagesTheFirstCounts) {
  Http2Peer peer(Shared().server().address());
  Call(peer,
       GrpcFrame(BeginOf(Key("/1"), "attempt-1").SerializeAsString()) +
           GrpcFrame(BeginOf(Key("/2"), "attempt-1").SerializeAsString()));
  EXPECT_EQ(EndOf(peer.Read()).text, Code(grpc::OK).text);
  EXPECT_EQ(client().StateOf(BeginOf(Key("/1"), "attempt-1")),
            v1::RECORD_STATE_IN_PROGRESS);
  EXPECT_EQ(CountRows(), "1");
}

// gRPC bounds a message before it is decompressed: a small one could fill the
// memory.
TEST_F(BadInputTest, B48CompressedMessageIsRefused) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::BeginRequest begin = BeginOf(Key(), "attempt-1");
    begin.set_operation(std::string(100, 'o'));
    RawReply reply = {};
    v1::BeginResponse response;
    reply.status = client().stub().Begin(&context, begin, &response);
    EXPECT_THAT(reply, IsRefused(kInvalid, "MESSAGE_MALFORMED"));
  }
  EXPECT_EQ(CountRows(), "0");
}

// A client that may compress and finds a message too small for it says gzip and
// sends it plain. Refused or served, but never refused and served.
TEST_F(BadInputTest, B48PlainMessageOfACompressingClientIsServed) {
  for (int i = 0; i < 50; ++i) {
    const v1::BeginRequest begin = BeginOf(Key(absl::StrCat("/", i)), "a");
    Http2Peer peer(Shared().server().address());
    Call(peer, GrpcFrame(begin.SerializeAsString()),
         {{"grpc-encoding", "gzip"}});
    ASSERT_EQ(EndOf(peer.Read()).text, Code(grpc::OK).text);
    EXPECT_EQ(client().StateOf(begin), v1::RECORD_STATE_IN_PROGRESS);
  }
}

TEST_F(BadInputTest, B50MetadataAboveMostFailsThatCallAlone) {
  Client stranger(Shared().server().address());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(5)));
  context.AddMetadata("x-large", std::string(9 * 1024, 'x'));
  RawReply reply =
      CallRaw(stranger.channel(), kBegin,
              BeginOf(Key(), "attempt-1").SerializeAsString(), context);
  EXPECT_THAT(reply, IsRefused(grpc::StatusCode::RESOURCE_EXHAUSTED, ""));
  EXPECT_EQ(CountRows(), "0");
  EXPECT_THAT(stranger.Begin(BeginOf(Key(), "attempt-1")), IsStarted());
}

TEST_F(BadInputTest, B54ClientThatWantsTlsIsToldUnavailable) {
  const auto channel = grpc::CreateChannel(Shared().server().address(),
                                           grpc::SslCredentials({}));
  EXPECT_EQ(CallRaw(channel, kBegin, "", absl::Seconds(5)).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace dedupe::testing
