// Faults on demand, to see what is left behind when a server dies or stands
// still at the worst moments.
#ifndef PAYMENTS_FAULTS_H_
#define PAYMENTS_FAULTS_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace payments {

enum class FaultPoint {
  kNone,
  // The key is ours; nothing has happened.
  kBeforeWork,
  // The card is authorised; the business transaction is not open yet. While it
  // is open there is no better moment: what is written is not committed either
  // way, and a process that stands still here holds no lock that a takeover
  // would wait for.
  kBeforeCommit,
  // The charge is committed; dedupe has not heard of it (behind the shared
  // door it has), nor has the client.
  kAfterCommit,
};

enum class FaultAction {
  // SIGKILL.
  kKill,
  // SIGSTOP: goes on after SIGCONT, however late.
  kStop,
  // The work fails, with nothing changed anywhere.
  kFail,
};

// Thread-safe.
class Faults {
 public:
  Faults(FaultPoint point, FaultAction action, int times)
      : point_(point), action_(action), left_(times) {}

  // Such as "before-commit:kill"; "" is none.
  static absl::StatusOr<std::unique_ptr<Faults>> Parse(const std::string& text,
                                                       int times);

  // Acts if a fault is due at this point. True: fail here.
  bool Reach(FaultPoint point);

 private:
  const FaultPoint point_;
  const FaultAction action_;
  std::atomic<int> left_;
};

}  // namespace payments

#endif  // PAYMENTS_FAULTS_H_
