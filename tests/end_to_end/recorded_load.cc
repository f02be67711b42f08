#include "tests/end_to_end/recorded_load.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dedupe::testing {
namespace {

constexpr absl::Duration kCallLimit = absl::Seconds(5);
// What the server advises; without it the callers would spin on a dead one.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

bool IsOpen(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace

RecordedLoad::RecordedLoad(Client& client, int callers,
                           const std::string& prefix)
    : client_(client), prefix_(prefix), last_completion_(absl::Now()) {
  client_.WaitForConnection();
  for (int caller = 0; caller < callers; ++caller) {
    threads_.emplace_back([this, caller] { Run(caller); });
  }
}

RecordedLoad::~RecordedLoad() { Stop(); }

bool RecordedLoad::WaitForProgress(int completions, absl::Duration limit) {
  const int64_t wanted = this->completions() + completions;
  const absl::Time until = absl::Now() + limit;
  while (this->completions() < wanted) {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

void RecordedLoad::Stop() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::map<grpc::StatusCode, int64_t> RecordedLoad::codes() const {
  absl::MutexLock lock(&mutex_);
  return codes_;
}

absl::Duration RecordedLoad::longest_gap() const {
  absl::MutexLock lock(&mutex_);
  return longest_gap_;
}

int64_t RecordedLoad::completions() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(completions_.size());
}

std::vector<std::string> RecordedLoad::FindLost(Client& client) const {
  std::vector<std::string> lost;
  absl::MutexLock lock(&mutex_);
  for (const Completion& completion : completions_) {
    const LookupReply reply = client.Lookup(LookupOf(completion.begin));
    const bool kept =
        reply.status.ok() &&
        reply.message.state() == v1::RECORD_STATE_COMPLETED &&
        reply.message.response().body() == completion.body &&
        FromProto(reply.message.completed_at()) == completion.completed_at;
    if (!kept) {
      lost.push_back(absl::StrCat(completion.begin.key(), ": ",
                                  Describe(reply.status), " ",
                                  reply.message.ShortDebugString()));
    }
  }
  return lost;
}

template <typename Make>
auto RecordedLoad::Settle(Make make) {
  auto reply = make();
  Count(reply.status.error_code());
  while (IsOpen(reply.status)) {
    absl::SleepFor(kRetryDelay);
    reply = make();
    Count(reply.status.error_code());
  }
  return reply;
}

void RecordedLoad::Run(int caller) {
  for (int number = 0; !stopping_; ++number) {
    const v1::BeginRequest begin =
        BeginOf(absl::StrCat(prefix_, "/", caller, "/", number), "attempt-1");
    const BeginReply lease =
        Settle([&] { return client_.Begin(begin, kCallLimit); });
    if (!lease.message.has_started()) continue;
    const std::string body = absl::StrCat("response of ", begin.key());
    const CompleteReply reply = Settle([&] {
      return client_.Complete(
          CompleteOf(begin, lease.message.started().fence(), body), kCallLimit);
    });
    if (!reply.status.ok()) continue;
    Acknowledge({begin, body, FromProto(reply.message.completed_at())});
  }
}

void RecordedLoad::Count(grpc::StatusCode code) {
  absl::MutexLock lock(&mutex_);
  ++codes_[code];
}

void RecordedLoad::Acknowledge(Completion completion) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  longest_gap_ = std::max(longest_gap_, now - last_completion_);
  last_completion_ = now;
  completions_.push_back(std::move(completion));
}

}  // namespace dedupe::testing
