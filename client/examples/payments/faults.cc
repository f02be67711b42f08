#include "client/examples/payments/faults.h"

#include <signal.h>

#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"

namespace payments {

absl::StatusOr<std::unique_ptr<Faults>> Faults::Parse(const std::string& text,
                                                      int times) {
  static const std::map<std::string, FaultPoint> kPoints = {
      {"before-work", FaultPoint::kBeforeWork},
      {"before-commit", FaultPoint::kBeforeCommit},
      {"after-commit", FaultPoint::kAfterCommit}};
  static const std::map<std::string, FaultAction> kActions = {
      {"kill", FaultAction::kKill},
      {"stop", FaultAction::kStop},
      {"fail", FaultAction::kFail}};
  if (text.empty()) {
    return std::make_unique<Faults>(FaultPoint::kNone, FaultAction::kFail, 0);
  }
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto point = kPoints.find(parts.first);
  const auto action = kActions.find(parts.second);
  if (point == kPoints.end() || action == kActions.end()) {
    return absl::InvalidArgumentError("a fault is POINT:ACTION");
  }
  if (action->second == FaultAction::kFail &&
      point->second != FaultPoint::kBeforeWork) {
    return absl::InvalidArgumentError("fail goes with before-work alone");
  }
  return std::make_unique<Faults>(point->second, action->second, times);
}

bool Faults::Reach(FaultPoint point) {
  if (point != point_ || left_.fetch_sub(1) <= 0) return false;
  std::fprintf(stderr, "the fault strikes\n");
  if (action_ == FaultAction::kFail) return true;
  raise(action_ == FaultAction::kKill ? SIGKILL : SIGSTOP);
  return false;
}

}  // namespace payments
