// A TCP connection that sends and takes bytes without ever being blocked by
// its peer.
#ifndef DEDUPE_TESTS_END_TO_END_ATTACKS_RAW_CONNECTION_H_
#define DEDUPE_TESTS_END_TO_END_ATTACKS_RAW_CONNECTION_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/transport/descriptor.h"

namespace dedupe::testing {

// Not thread-safe.
class RawConnection {
 public:
  struct Options {
    // Bounds what the kernel takes in while nobody reads, in bytes; 0: its
    // default.
    int receive_buffer = 0;
    // All of 127.0.0.0/8 is this machine.
    std::string from = "127.0.0.1";
  };

  // To "127.0.0.1:PORT"; closed() at once if that fails.
  RawConnection(const std::string& address, const Options& options);
  explicit RawConnection(const std::string& address)
      : RawConnection(address, Options{}) {}

  // All of it; false if the peer has hung up, or takes too long.
  bool Send(absl::string_view bytes, absl::Duration limit = absl::Seconds(5));
  // As much as the kernel takes at once; how much that was.
  size_t SendSome(absl::string_view bytes);
  // What has come by now.
  std::string Take();
  // Throws away what comes until the peer hangs up; false if it does not.
  bool AwaitClosed(absl::Duration limit);
  // As far as the last Send or Take have found out.
  bool closed() const { return !socket_.valid(); }
  // Whether the peer has reset the connection or hung up; reads nothing.
  bool HasHungUp() const;
  void Close() { socket_.Close(); }

 private:
  Descriptor socket_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_ATTACKS_RAW_CONNECTION_H_
