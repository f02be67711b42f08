// Jobs without a command, for tests of what only queues them.
#ifndef DEDUPE_TESTS_UNIT_STORE_FAKE_JOB_H_
#define DEDUPE_TESTS_UNIT_STORE_FAKE_JOB_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/job.h"

namespace dedupe {

// Found by GoogleTest.
inline void PrintTo(const JobPtr& job, std::ostream* out) {
  *out << job->id.key << " (verb " << static_cast<int>(job->verb) << ", "
       << job->bytes << " bytes)";
}

namespace testing {

class FakeJob final : public Job {
 public:
  FakeJob(Verb what, RecordId about, size_t size)
      : Job(what, std::move(about), CallScope(SteadyTime::max()), size) {}

  void Refuse(absl::Status /*status*/) override { TakeAnswer(); }
};

inline JobPtr MakeJob(const std::string& key, Verb verb = Verb::kBegin,
                      size_t bytes = 100) {
  return std::make_shared<FakeJob>(verb, RecordId{"acme", key}, bytes);
}

inline void MakeAnswered(const JobPtr& job) {
  job->Refuse(absl::CancelledError());
}

// Times of a test, which need not be those of any clock.
inline SteadyTime At(int milliseconds) {
  return SteadyTime() + std::chrono::milliseconds(milliseconds);
}

}  // namespace testing
}  // namespace dedupe

#endif  // DEDUPE_TESTS_UNIT_STORE_FAKE_JOB_H_
