// Callers that work through keys of their own while something breaks, repeat
// what was left open, and remember every completion that was acknowledged.
#ifndef DEDUPE_TESTS_END_TO_END_RECORDED_LOAD_H_
#define DEDUPE_TESTS_END_TO_END_RECORDED_LOAD_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/support/grpc_client.h"

namespace dedupe::testing {

class RecordedLoad {
 public:
  // Runs from now on. Keys begin with `prefix`. The client must outlive it, and
  // waits for connections from now on.
  RecordedLoad(Client& client, int callers, const std::string& prefix);
  ~RecordedLoad();

  // Waits until so many completions have been acknowledged from now on; false
  // if that takes longer than the limit.
  bool WaitForProgress(int completions, absl::Duration limit);
  // Each caller finishes the key that it is at.
  void Stop();

  // How often which status came, OK included.
  std::map<grpc::StatusCode, int64_t> codes() const;
  // The longest time without any acknowledged completion.
  absl::Duration longest_gap() const;
  int64_t completions() const;

  // After Stop(). What was acknowledged and is not there now, in words; empty
  // if all is kept.
  std::vector<std::string> FindLost(Client& client) const;

 private:
  struct Completion {
    v1::BeginRequest begin;
    std::string body;
    absl::Time completed_at;
  };

  void Run(int caller);
  // Repeats the call until its outcome is known. `Make` sends it once.
  template <typename Make>
  auto Settle(Make make);
  void Count(grpc::StatusCode code);
  void Acknowledge(Completion completion);

  Client& client_;
  const std::string prefix_;
  std::atomic<bool> stopping_{false};
  mutable absl::Mutex mutex_;
  std::map<grpc::StatusCode, int64_t> codes_ ABSL_GUARDED_BY(mutex_);
  std::vector<Completion> completions_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_completion_ ABSL_GUARDED_BY(mutex_);
  absl::Duration longest_gap_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_RECORDED_LOAD_H_
