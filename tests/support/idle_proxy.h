// A TCP relay that drops connections on which nothing has passed for a while,
// as load balancers and firewalls do.
#ifndef DEDUPE_TESTS_SUPPORT_IDLE_PROXY_H_
#define DEDUPE_TESTS_SUPPORT_IDLE_PROXY_H_

#include <atomic>
#include <list>
#include <string>
#include <thread>

#include "absl/time/time.h"

namespace dedupe::testing {

class IdleProxy {
 public:
  enum class Drop { kClose, kReset };

  // Listens on a free port of 127.0.0.1; no port to listen on ends the test
  // program. upstream: such as "127.0.0.1:40123".
  IdleProxy(const std::string& upstream, absl::Duration idle_max, Drop drop);
  // Closes all connections.
  ~IdleProxy();
  IdleProxy(const IdleProxy&) = delete;
  IdleProxy& operator=(const IdleProxy&) = delete;

  const std::string& address() const { return address_; }
  // Of all that were ever opened; how many of them were dropped as idle.
  int connections() const { return connections_; }
  int dropped() const { return dropped_; }

 private:
  struct Connection {
    int client = -1;
    int server = -1;
    absl::Time last_used;
  };

  void Run();
  void Accept();
  // False if it is over.
  bool Relay(Connection& connection, bool from_client, bool from_server);
  void End(const Connection& connection) const;

  const int upstream_port_;
  const absl::Duration idle_max_;
  const Drop drop_;
  int listener_ = -1;
  std::string address_;
  std::atomic<int> connections_{0};
  std::atomic<int> dropped_{0};
  std::atomic<bool> stopping_{false};
  // Of the thread alone.
  std::list<Connection> open_;
  std::thread thread_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_IDLE_PROXY_H_
