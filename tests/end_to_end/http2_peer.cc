#include "tests/end_to_end/http2_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"

namespace dedupe::testing {
namespace {

constexpr uint8_t kData = 0;
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kResetStream = 3;
constexpr uint8_t kSettings = 4;
constexpr uint8_t kPing = 6;
constexpr uint8_t kGoAway = 7;
constexpr uint8_t kWindowUpdate = 8;
constexpr uint8_t kAcknowledgement = 1;
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;
constexpr uint32_t kCall = 1;
constexpr size_t kFrameHeaderBytes = 9;
constexpr size_t kFramePayloadMax = 16384;
constexpr uint32_t kInitialWindowSize = 4;
constexpr size_t kSettingBytes = 6;
constexpr absl::Duration kSendLimit = absl::Seconds(5);

std::string BigEndian(uint32_t number, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(number >> shift & 0xff);
  }
  return text;
}

uint32_t FromBigEndian(absl::string_view bytes) {
  uint32_t number = 0;
  for (const char byte : bytes) {
    number = number << 8 | static_cast<uint8_t>(byte);
  }
  return number;
}

// An HPACK integer with a prefix of seven bits, the eighth being 0: the length
// of a string without Huffman coding.
std::string HpackLength(size_t length) {
  if (length < 127) return std::string(1, static_cast<char>(length));
  std::string text(1, 127);
  for (length -= 127; length >= 128; length /= 128) {
    text += static_cast<char>(length % 128 | 128);
  }
  return text + static_cast<char>(length);
}

// A literal that no table remembers.
std::string HpackHeader(const std::string& name, const std::string& value) {
  return std::string(1, 0) + HpackLength(name.size()) + name +
         HpackLength(value.size()) + value;
}

// In a fresh connection the server spells it out.
std::optional<int> FindGrpcStatus(absl::string_view header_block) {
  constexpr absl::string_view kName = "grpc-status";
  const size_t name = header_block.find(kName);
  if (name == absl::string_view::npos) return std::nullopt;
  absl::string_view rest = header_block.substr(name + kName.size());
  if (rest.empty()) return std::nullopt;
  int status = 0;
  if (!absl::SimpleAtoi(rest.substr(1, static_cast<size_t>(rest[0])),
                        &status)) {
    return std::nullopt;
  }
  return status;
}

}  // namespace

std::string GrpcFrame(absl::string_view message, uint8_t compressed) {
  std::string frame =
      GrpcFrameOfLength(message, static_cast<uint32_t>(message.size()));
  frame[0] = static_cast<char>(compressed);
  return frame;
}

std::string GrpcFrameOfLength(absl::string_view message, uint32_t length) {
  return std::string(1, 0) + BigEndian(length, 4) + std::string(message);
}

Http2Peer::Http2Peer(const std::string& address)
    : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) return;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    close(socket_);
    socket_ = -1;
  }
}

Http2Peer::~Http2Peer() {
  if (socket_ >= 0) close(socket_);
}

void Http2Peer::SendBytes(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    // The server may have hung up already, which Read() tells.
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void Http2Peer::SendPreface() {
  SendBytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  SendFrame(kSettings, 0, 0, "");
}

void Http2Peer::SendHeaders(
    const std::string& path,
    const std::vector<std::pair<std::string, std::string>>& more,
    EndStream end) {
  std::string block =
      HpackHeader(":method", "POST") + HpackHeader(":scheme", "http") +
      HpackHeader(":path", path) + HpackHeader(":authority", "localhost") +
      HpackHeader("te", "trailers") +
      HpackHeader("content-type", "application/grpc");
  for (const auto& [name, value] : more) block += HpackHeader(name, value);
  SendFrame(kHeaders,
            end == EndStream::kYes ? kEndHeaders | kEndStream : kEndHeaders,
            kCall, block);
}

void Http2Peer::SendData(absl::string_view data, EndStream end) {
  const absl::Time until = absl::Now() + kSendLimit;
  do {
    if (!data.empty() && !AwaitWindow(until)) return;
    const absl::string_view part = data.substr(
        0, std::min(kFramePayloadMax, static_cast<size_t>(Window())));
    data.remove_prefix(part.size());
    call_window_ -= static_cast<int64_t>(part.size());
    connection_window_ -= static_cast<int64_t>(part.size());
    SendFrame(kData,
              data.empty() && end == EndStream::kYes ? kEndStream : uint8_t{0},
              kCall, part);
  } while (!data.empty());
}

void Http2Peer::SendPing() { SendFrame(kPing, 0, 0, "keepaliv"); }

void Http2Peer::AwaitSettings(absl::Duration limit) {
  const absl::Time until = absl::Now() + limit;
  while (!has_settings_) {
    if (!TakeFrame() && !ReadMore(until)) return;
  }
}

Http2Peer::Outcome Http2Peer::Read(absl::Duration limit) {
  return ReadData(std::numeric_limits<size_t>::max(), limit);
}

Http2Peer::Outcome Http2Peer::ReadData(size_t bytes, absl::Duration limit) {
  const absl::Time until = absl::Now() + limit;
  while (!call_ended_ && outcome_.data.size() < bytes) {
    if (TakeFrame()) continue;
    if (!ReadMore(until)) {
      outcome_.connection_was_closed |= absl::Now() < until;
      break;
    }
  }
  return outcome_;
}

void Http2Peer::SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                          absl::string_view payload) {
  SendBytes(BigEndian(static_cast<uint32_t>(payload.size()), 3) +
            static_cast<char>(type) + static_cast<char>(flags) +
            BigEndian(stream, 4) + std::string(payload));
}

bool Http2Peer::ReadMore(absl::Time until) {
  pollfd readable = {socket_, POLLIN, 0};
  const int64_t left = absl::ToInt64Milliseconds(until - absl::Now());
  if (left <= 0 || poll(&readable, 1, static_cast<int>(left)) <= 0) {
    return false;
  }
  char buffer[16384];
  const ssize_t count = recv(socket_, buffer, sizeof(buffer), 0);
  if (count <= 0) return false;
  received_.append(buffer, static_cast<size_t>(count));
  return true;
}

bool Http2Peer::TakeFrame() {
  if (received_.size() < kFrameHeaderBytes) return false;
  const absl::string_view bytes = received_;
  const size_t length = FromBigEndian(bytes.substr(0, 3));
  if (received_.size() < kFrameHeaderBytes + length) return false;
  const auto type = static_cast<uint8_t>(bytes[3]);
  const auto flags = static_cast<uint8_t>(bytes[4]);
  const uint32_t stream = FromBigEndian(bytes.substr(5, 4));
  const std::string payload(bytes.substr(kFrameHeaderBytes, length));
  received_.erase(0, kFrameHeaderBytes + length);

  if (type == kWindowUpdate) {
    (stream == kCall ? call_window_ : connection_window_) +=
        FromBigEndian(payload);
  } else if (type == kSettings && (flags & kAcknowledgement) == 0) {
    TakeSettings(payload);
  } else if (type == kPing && (flags & kAcknowledgement) == 0) {
    // The server's: it closes the connection of a peer that says nothing.
    SendFrame(kPing, kAcknowledgement, 0, payload);
  } else if (type == kGoAway) {
    outcome_.connection_was_closed = true;
    // After the last stream's number and the error's.
    outcome_.goodbye = payload.substr(std::min(payload.size(), size_t{8}));
  } else if (stream == kCall) {
    TakeCallFrame(type, flags, payload);
  }
  return true;
}

void Http2Peer::TakeCallFrame(uint8_t type, uint8_t flags,
                              const std::string& payload) {
  if (type == kData) outcome_.data += payload;
  if (type == kHeaders) {
    if (const auto status = FindGrpcStatus(payload); status.has_value()) {
      outcome_.status = status;
    }
  }
  outcome_.stream_was_reset |= type == kResetStream;
  call_ended_ = type == kResetStream || (flags & kEndStream) != 0;
}

void Http2Peer::TakeSettings(absl::string_view payload) {
  has_settings_ = true;
  SendFrame(kSettings, kAcknowledgement, 0, "");
  for (; payload.size() >= kSettingBytes;
       payload.remove_prefix(kSettingBytes)) {
    if (FromBigEndian(payload.substr(0, 2)) != kInitialWindowSize) continue;
    const int64_t size = FromBigEndian(payload.substr(2, 4));
    call_window_ += size - call_window_at_first_;
    call_window_at_first_ = size;
  }
}

bool Http2Peer::AwaitWindow(absl::Time until) {
  while (TakeFrame()) {
  }
  while (Window() == 0 && !call_ended_) {
    if (!ReadMore(until)) return false;
    while (TakeFrame()) {
    }
  }
  return !call_ended_;
}

int64_t Http2Peer::Window() const {
  return std::max<int64_t>(0, std::min(call_window_, connection_window_));
}

}  // namespace dedupe::testing
