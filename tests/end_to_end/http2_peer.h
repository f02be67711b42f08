// As much of HTTP/2 as it takes to send a server what no gRPC library would:
// frames by hand on a connection of one call.
#ifndef DEDUPE_TESTS_END_TO_END_HTTP2_PEER_H_
#define DEDUPE_TESTS_END_TO_END_HTTP2_PEER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dedupe::testing {

enum class EndStream { kNo, kYes };

// A gRPC message in its frame of five bytes, which may lie.
std::string GrpcFrame(absl::string_view message, uint8_t compressed = 0);
std::string GrpcFrameOfLength(absl::string_view message, uint32_t length);

class Http2Peer {
 public:
  // What became of the call, as far as the server said.
  struct Outcome {
    // grpc-status of the trailers.
    std::optional<int> status;
    // The server ended the call without one, or the whole connection.
    bool stream_was_reset = false;
    bool connection_was_closed = false;
    // What the server said when it closed the connection.
    std::string goodbye;
    // The payload of all DATA frames.
    std::string data;
  };

  // Connects to "127.0.0.1:PORT".
  explicit Http2Peer(const std::string& address);
  ~Http2Peer();
  Http2Peer(const Http2Peer&) = delete;
  Http2Peer& operator=(const Http2Peer&) = delete;

  // Without any framing.
  void SendBytes(absl::string_view bytes);
  // The connection's preface and settings.
  void SendPreface();
  // The headers of a gRPC call, and then these.
  void SendHeaders(
      const std::string& path,
      const std::vector<std::pair<std::string, std::string>>& more = {},
      EndStream end = EndStream::kNo);
  // As fast as the server's windows let it, until the call has ended or five
  // seconds are over.
  void SendData(absl::string_view data, EndStream end = EndStream::kYes);
  void SendPing();
  // Waits for the server's settings, which reading accepts. gRPC holds a peer
  // to some of them only from then on.
  void AwaitSettings(absl::Duration limit = absl::Seconds(5));

  // Reads until the call or the connection has ended, or the time is up.
  Outcome Read(absl::Duration limit = absl::Seconds(5));
  // The same, or until so many bytes of DATA have come.
  Outcome ReadData(size_t bytes, absl::Duration limit = absl::Seconds(5));

 private:
  void SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                 absl::string_view payload);
  // False at the end of the connection or of the time.
  bool ReadMore(absl::Time until);
  // One whole frame of the bytes received; false if there is none yet.
  bool TakeFrame();
  void TakeCallFrame(uint8_t type, uint8_t flags, const std::string& payload);
  // Accepts them, and keeps count of what may be sent.
  void TakeSettings(absl::string_view payload);
  // False if nothing more may be sent: the call or the time is over.
  bool AwaitWindow(absl::Time until);
  // Of the two windows the smaller.
  int64_t Window() const;

  int socket_ = -1;
  std::string received_;
  Outcome outcome_;
  bool call_ended_ = false;
  bool has_settings_ = false;
  // What HTTP/2 begins with; the server's settings move the call's own.
  int64_t call_window_at_first_ = 65535;
  int64_t call_window_ = call_window_at_first_;
  int64_t connection_window_ = call_window_at_first_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_HTTP2_PEER_H_
