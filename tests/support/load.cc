#include "tests/support/load.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/grpc_client.h"

namespace dedupe::testing {
namespace {

constexpr absl::Duration kCallLimit = absl::Seconds(20);

// What all callers of one run share. Used by one thread.
struct Run {
  grpc::CompletionQueue queue;
  Identity identity;
  // Of this run alone.
  std::string key_prefix;
  std::string body;
  absl::Time counts_from;
  absl::Time ends_at;
  int64_t keys = 0;
  int64_t pairs = 0;
  int64_t failures = 0;
  std::string first_failure;
  std::vector<absl::Duration> begin_times;
};

// One closed loop: Begin, Complete, the next key.
class Caller {
 public:
  Caller(Run& run, v1::DedupeService::Stub& stub) : run_(run), stub_(stub) {}

  void SendBegin() {
    begin_ = BeginOf(absl::StrCat(run_.key_prefix, run_.keys++), "attempt-1");
    completing_ = false;
    sent_at_ = absl::Now();
    begin_reader_ = stub_.AsyncBegin(NewContext(), begin_, &run_.queue);
    begin_reader_->Finish(&begin_response_, &status_, this);
  }

  // The call is done. False: this caller has stopped.
  bool OnDone() {
    const absl::Time now = absl::Now();
    if (!status_.ok() || (!completing_ && !begin_response_.has_started())) {
      Fail();
    } else if (!completing_) {
      if (now >= run_.counts_from) run_.begin_times.push_back(now - sent_at_);
      SendComplete();
      return true;
    } else if (now >= run_.counts_from && now < run_.ends_at) {
      ++run_.pairs;
    }
    if (now >= run_.ends_at) return false;
    SendBegin();
    return true;
  }

 private:
  grpc::ClientContext* NewContext() {
    context_.emplace();
    context_->set_deadline(absl::ToChronoTime(absl::Now() + kCallLimit));
    context_->set_wait_for_ready(true);
    for (const std::string& authorization : run_.identity.authorizations) {
      context_->AddMetadata("authorization", authorization);
    }
    return &*context_;
  }

  void SendComplete() {
    completing_ = true;
    complete_reader_ = stub_.AsyncComplete(
        NewContext(),
        CompleteOf(begin_, begin_response_.started().fence(), run_.body),
        &run_.queue);
    complete_reader_->Finish(&complete_response_, &status_, this);
  }

  void Fail() {
    if (run_.failures++ > 0) return;
    run_.first_failure =
        status_.ok() ? begin_response_.ShortDebugString() : Describe(status_);
  }

  Run& run_;
  v1::DedupeService::Stub& stub_;
  bool completing_ = false;
  absl::Time sent_at_;
  v1::BeginRequest begin_;
  v1::BeginResponse begin_response_;
  v1::CompleteResponse complete_response_;
  grpc::Status status_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::BeginResponse>>
      begin_reader_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::CompleteResponse>>
      complete_reader_;
};

absl::Duration Quantile(std::vector<absl::Duration>& times, double part) {
  if (times.empty()) return absl::ZeroDuration();
  const auto nth =
      times.begin() +
      static_cast<ptrdiff_t>(part * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), nth, times.end());
  return *nth;
}

}  // namespace

LoadResult RunPairs(const LoadOptions& options) {
  Run run;
  run.identity = options.identity;
  run.key_prefix = absl::StrCat("load-", absl::GetCurrentTimeNanos(), "-");
  run.body.assign(options.response_bytes, 'b');
  run.counts_from = absl::Now() + options.warm_up;
  run.ends_at = run.counts_from + options.duration;

  std::vector<std::unique_ptr<v1::DedupeService::Stub>> stubs;
  for (int i = 0; i < options.channels; ++i) {
    stubs.push_back(v1::DedupeService::NewStub(
        OpenChannel(options.address, {}, options.identity.credentials)));
  }
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < options.callers; ++i) {
    callers.push_back(std::make_unique<Caller>(
        run, *stubs[static_cast<size_t>(i) % stubs.size()]));
    callers.back()->SendBegin();
  }
  int running = options.callers;
  void* tag = nullptr;
  bool ok = false;
  while (running > 0 && run.queue.Next(&tag, &ok)) {
    if (!static_cast<Caller*>(tag)->OnDone()) --running;
  }
  run.queue.Shutdown();
  while (run.queue.Next(&tag, &ok)) {
  }

  LoadResult result;
  result.pairs = run.pairs;
  result.pairs_per_second =
      static_cast<double>(run.pairs) / absl::ToDoubleSeconds(options.duration);
  result.begin_p50 = Quantile(run.begin_times, 0.5);
  result.begin_p99 = Quantile(run.begin_times, 0.99);
  result.failures = run.failures;
  result.first_failure = std::move(run.first_failure);
  return result;
}

}  // namespace dedupe::testing
