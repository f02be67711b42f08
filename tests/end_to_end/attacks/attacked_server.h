// What is attacked: a real server on a real PostgreSQL, whose metrics and
// memory are watched meanwhile.
#ifndef DEDUPE_TESTS_END_TO_END_ATTACKS_ATTACKED_SERVER_H_
#define DEDUPE_TESTS_END_TO_END_ATTACKS_ATTACKED_SERVER_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/end_to_end/attacks/raw_connection.h"
#include "tests/end_to_end/deployment.h"
#include "tests/support/memory_use.h"

namespace dedupe::testing {

class AttackedServer {
 public:
  explicit AttackedServer(std::vector<std::string> settings = {})
      : metrics_address_(absl::StrCat("127.0.0.1:", FreePort())),
        deployment_(WithMetrics(std::move(settings), metrics_address_)) {}

  Deployment& deployment() { return deployment_; }
  const std::string& address() { return deployment_.server().address(); }
  pid_t pid() { return deployment_.server().process().pid(); }
  bool running() { return deployment_.server().process().running(); }
  double ResidentMebibytes() { return MemoryUse(pid(), "VmRSS"); }

  // -1 if the server does not say.
  int64_t Metric(absl::string_view name) const {
    RawConnection connection(metrics_address_);
    connection.Send("GET /metrics HTTP/1.0\r\n\r\n");
    std::string page;
    const absl::Time until = absl::Now() + absl::Seconds(5);
    while (!connection.closed() && absl::Now() < until) {
      page += connection.Take();
      absl::SleepFor(absl::Milliseconds(1));
    }
    for (const absl::string_view line : absl::StrSplit(page, '\n')) {
      const std::pair<absl::string_view, absl::string_view> words =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      double value = 0;
      if (words.first == name &&
          absl::SimpleAtod(absl::StripAsciiWhitespace(words.second), &value)) {
        return static_cast<int64_t>(value);
      }
    }
    return -1;
  }

  // Of the records of a client.
  int64_t CountRows(const std::string& client_id) {
    return std::stoll(SqlValue(
        deployment_.url(),
        absl::StrCat("SELECT count(*) FROM dedupe.record WHERE client_id = '",
                     client_id, "'")));
  }

 private:
  static std::vector<std::string> WithMetrics(std::vector<std::string> settings,
                                              const std::string& address) {
    settings.push_back("--metrics-address=" + address);
    return settings;
  }

  std::string metrics_address_;
  Deployment deployment_;
};

// False if it has not come true in time.
inline bool Await(absl::Duration limit,
                  const std::function<bool()>& condition) {
  const absl::Time until = absl::Now() + limit;
  while (!condition()) {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}

// The highest that the calls in flight and the memory were, from the
// constructor to Stop().
class HighWater {
 public:
  explicit HighWater(AttackedServer& server)
      : server_(server), thread_([this] { Run(); }) {}
  ~HighWater() { Stop(); }
  HighWater(const HighWater&) = delete;
  HighWater& operator=(const HighWater&) = delete;

  void Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Once stopped.
  int64_t calls_in_flight() const { return calls_in_flight_; }
  double resident_mebibytes() const { return resident_mebibytes_; }

 private:
  void Run() {
    while (!stopping_) {
      calls_in_flight_ =
          std::max(calls_in_flight_, server_.Metric("dedupe_calls_in_flight"));
      resident_mebibytes_ =
          std::max(resident_mebibytes_, server_.ResidentMebibytes());
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  AttackedServer& server_;
  std::atomic<bool> stopping_{false};
  int64_t calls_in_flight_ = 0;
  double resident_mebibytes_ = 0;
  std::thread thread_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_END_TO_END_ATTACKS_ATTACKED_SERVER_H_
