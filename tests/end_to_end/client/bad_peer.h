// What may stand at a server's address instead of it.
#ifndef DEDUPE_TESTS_END_TO_END_CLIENT_BAD_PEER_H_
#define DEDUPE_TESTS_END_TO_END_CLIENT_BAD_PEER_H_

#include <atomic>
#include <string>
#include <thread>

namespace dedupe::testing {

// Accepts connections on a free port of 127.0.0.1, one after another, sends
// each these bytes, and closes it, or keeps it open and stays silent.
class BadPeer {
 public:
  enum class After { kClose, kSilence };
  BadPeer(std::string bytes, After after);
  ~BadPeer();
  BadPeer(const BadPeer&) = delete;
  BadPeer& operator=(const BadPeer&) = delete;

  const std::string& address() const { return address_; }
  int connections() const { return connections_; }

 private:
  void Serve();

  const std::string bytes_;
  const After after_;
  std::string address_;
  int listener_;
  std::atomic<int> connections_{0};
  std::thread thread_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_CLIENT_BAD_PEER_H_
