// The attempt that RunOnce hands to its work.
#ifndef DEDUPE_CLIENT_SRC_RUNNING_ATTEMPT_H_
#define DEDUPE_CLIENT_SRC_RUNNING_ATTEMPT_H_

#include <functional>
#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/src/lease_keeper.h"
#include "dedupe/client.h"
#include "dedupe/outcome.h"
#include "dedupe/run_once.h"

namespace dedupe::client {

// Keeps the lease from its making to its end. Thread-safe, but for
// set_first_seen_at.
class RunningAttempt : public Attempt {
 public:
  // Client and request outlive it.
  RunningAttempt(Client& client, const RunOnceRequest& request,
                 AttemptInfo info, const Started& started);

  const AttemptInfo& info() const override { return info_; }
  std::stop_token stop_token() const override { return stop_.get_token(); }
  absl::Duration lease_left() const override;
  absl::Status SaveCheckpoint(absl::string_view checkpoint) override;

  // Before the work begins.
  void set_first_seen_at(absl::Time time) { info_.first_seen_at = time; }

 private:
  LeaseKeeper::Terms Terms(const Started& started);

  Client& client_;
  const RunOnceRequest& request_;
  AttemptInfo info_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> pass_on_;
  const std::unique_ptr<LeaseKeeper::Kept> kept_;
};

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_RUNNING_ATTEMPT_H_
