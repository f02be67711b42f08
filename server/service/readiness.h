// Whether calls can be answered: the database takes writes and has the schema
// that this server needs. Found out by a write, again and again.
#ifndef DEDUPE_SERVER_SERVICE_READINESS_H_
#define DEDUPE_SERVER_SERVICE_READINESS_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "server/service/store.h"

namespace dedupe {

class Readiness {
 public:
  // Judges what the probe has found; OK: the schema fits.
  using SchemaCheck = std::function<absl::Status(const ProbeAnswer&)>;
  // Called with every change, first with the first finding.
  using OnChange = std::function<void(bool ready)>;

  // Starts at once. The store must outlive it.
  Readiness(Store& store, SchemaCheck check, OnChange on_change);
  ~Readiness();

  // Idempotent.
  void Stop();

 private:
  void Run();
  absl::Status Probe() const;
  void Report(const absl::Status& finding) const;

  Store& store_;
  const SchemaCheck check_;
  const OnChange on_change_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_SERVICE_READINESS_H_
