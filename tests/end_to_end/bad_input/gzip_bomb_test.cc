// A message of a mebibyte that would be a gibibyte, were it decompressed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/end_to_end/bad_input/bad_input_test.h"
#include "tests/end_to_end/http2_peer.h"
#include "tests/support/memory_use.h"

namespace dedupe::testing {
namespace {

constexpr size_t kMebibyte = 1 << 20;

std::string LittleEndian(uint32_t number) {
  std::string text;
  for (int shift = 0; shift < 32; shift += 8) {
    text += static_cast<char>(number >> shift & 0xff);
  }
  return text;
}

// Zeros as deflate writes them, without what stands around a stream.
std::string Deflate(size_t bytes, int flush) {
  const std::string zeros(bytes, '\0');
  std::string packed(kMebibyte, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS,
                         MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY),
            Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, flush);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

struct Bomb {
  // A whole gzip file.
  std::string gzip;
  size_t unpacked_bytes = 0;
};

// After a full flush nothing refers to what came before it: the pieces of a
// stream can be repeated.
Bomb MakeBomb(size_t mebibytes) {
  const std::string piece = Deflate(kMebibyte, Z_FULL_FLUSH);
  const std::string zeros(kMebibyte, '\0');
  Bomb bomb;
  bomb.gzip = std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  uLong checksum = crc32(0, nullptr, 0);
  for (size_t i = 0; i < mebibytes; ++i) {
    bomb.gzip += piece;
    checksum = crc32(checksum, reinterpret_cast<const Bytef*>(zeros.data()),
                     static_cast<uInt>(zeros.size()));
  }
  bomb.unpacked_bytes = mebibytes * kMebibyte;
  bomb.gzip += Deflate(0, Z_FINISH) +
               LittleEndian(static_cast<uint32_t>(checksum)) +
               LittleEndian(static_cast<uint32_t>(bomb.unpacked_bytes));
  return bomb;
}

// Whether it is what it claims to be, told by zlib a piece at a time.
size_t Unpack(const Bomb& bomb) {
  std::string piece(kMebibyte, '\0');
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(bomb.gzip.data()));
  stream.avail_in = static_cast<uInt>(bomb.gzip.size());
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    result = inflate(&stream, Z_NO_FLUSH);
  }
  EXPECT_EQ(result, Z_STREAM_END);
  const size_t unpacked = stream.total_out;
  inflateEnd(&stream);
  return unpacked;
}

class GzipBombTest : public BadInputTest {};

TEST_F(GzipBombTest, B48IsRefusedAndTakesNoMemory) {
  const Bomb bomb = MakeBomb(1000);
  ASSERT_EQ(Unpack(bomb), bomb.unpacked_bytes);
  // Else it would be refused for its own size.
  ASSERT_LT(bomb.gzip.size(), kMebibyte);
  Deployment deployment;
  const pid_t pid = deployment.server().process().pid();
  EXPECT_THAT(deployment.client().Begin(BeginOf("before", "a")), IsStarted());
  const double before = MemoryUse(pid, "VmRSS");
  ASSERT_GT(before, 0);

  for (int i = 0; i < 20; ++i) {
    Http2Peer peer(deployment.server().address());
    peer.SendPreface();
    peer.AwaitSettings();
    peer.SendHeaders(MethodPath("Begin"), {{"grpc-encoding", "gzip"}});
    peer.SendData(GrpcFrame(bomb.gzip, 1));
    EXPECT_EQ(peer.Read().status, grpc::INVALID_ARGUMENT);
  }
  const double grown = MemoryUse(pid, "VmRSS") - before;
  const double most = MemoryUse(pid, "VmHWM") - before;
  absl::PrintF(
      "20 times %d bytes that would be %d MiB: %.1f MiB grew by %.1f MiB,"
      " at most %.1f MiB\n",
      bomb.gzip.size(), bomb.unpacked_bytes / kMebibyte, before, grown, most);
  EXPECT_EQ(deployment.server().process().pid(), pid);
  EXPECT_THAT(deployment.client().Begin(BeginOf("after", "a")), IsStarted());
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(grown, 16);
  EXPECT_LT(most, 16);
#endif
}

}  // namespace
}  // namespace dedupe::testing
