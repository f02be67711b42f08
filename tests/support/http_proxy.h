// A relay between an HTTP client and its server that remembers what was asked
// and loses answers when told to.
#ifndef DEDUPE_TESTS_SUPPORT_HTTP_PROXY_H_
#define DEDUPE_TESTS_SUPPORT_HTTP_PROXY_H_

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dedupe::testing {

// What becomes of one request. It is always forwarded wholly; all but kPass are
// about the answer, which the server has given by then.
enum class ReplyFate {
  kPass,
  // The client's connection is reset.
  kReset,
  // The client's connection is closed in order, without a byte of an answer.
  kClose,
  // Kept until ReleaseHeld().
  kHold,
};

// HTTP/1.1 with keep-alive and Content-Length; a message with
// Transfer-Encoding, or of more than 1 MiB, ends its connection. Where the
// server cannot be reached or hangs up, the client's connection is reset.
// Thread-safe.
class HttpProxy {
 public:
  struct Options {
    // Beyond, clients wait in the listening socket's queue.
    size_t connections_max = 64;
  };

  // Listens on a free port of 127.0.0.1; no port to listen on ends the test
  // program. upstream_port is of 127.0.0.1 as well.
  explicit HttpProxy(int upstream_port) : HttpProxy(upstream_port, Options{}) {}
  HttpProxy(int upstream_port, Options options);
  // Cuts all connections.
  ~HttpProxy();
  HttpProxy(const HttpProxy&) = delete;
  HttpProxy& operator=(const HttpProxy&) = delete;

  int port() const { return port_; }
  // For requests from now on, those of open connections included.
  void SetUpstream(int port);
  // The fate of the next `count` requests that nothing was said about yet.
  // After those: kPass.
  void ForNext(int count, ReplyFate fate);
  void ReleaseHeld();

  // Of all whole requests, as they were on the wire, oldest first.
  std::vector<std::string> requests() const;
  // How many the server has answered, whether or not the client heard of it.
  size_t answered() const;
  // False if fewer come within the limit.
  bool WaitForRequests(size_t count, absl::Duration limit) const;
  bool WaitForAnswered(size_t count, absl::Duration limit) const;

 private:
  struct Connection;

  void Accept();
  // Waits until one more connection may be taken, and clears away those that
  // have ended. False if the proxy is about to stop.
  bool AwaitRoom();
  void Relay(Connection& connection);
  // One request and its answer. False if the connection is over.
  bool Exchange(Connection& connection);
  // Records it and says what shall become of its answer.
  ReplyFate Admit(const std::string& request);
  // Over a connection of its own, so that an idle one never occupies a thread
  // of the server's. Nothing if no whole answer comes.
  std::optional<std::string> Ask(Connection& connection,
                                 const std::string& request);
  void AwaitRelease();

  const Options options_;
  int listener_ = -1;
  int port_ = 0;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int upstream_port_ ABSL_GUARDED_BY(mutex_);
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  int releases_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<ReplyFate> fates_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  size_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

// The values of a header's lines in a request as it was on the wire; names
// compare without case.
std::vector<std::string> HeaderValues(const std::string& request,
                                      absl::string_view name);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_HTTP_PROXY_H_
