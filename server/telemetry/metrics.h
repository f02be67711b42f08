// What is counted, and the address where Prometheus reads it. Every metric of
// the server is one line of the table in metrics.cc. No key, client id,
// principal or token is ever part of one.
#ifndef DEDUPE_SERVER_TELEMETRY_METRICS_H_
#define DEDUPE_SERVER_TELEMETRY_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace dedupe {

enum class Metric {
  kConnections,
  kConnectionsAccepted,
  kConnectionsRefused,
  kConnectionsCut,
  kAcceptFailures,
  kCertificateNotAfter,
  kCertificateReloads,
  kCertificateRefusals,
  kAccessListAge,
  kCallsInFlight,
  kCallsUnauthenticated,
  kCallsForbidden,
  kCallsOverQuota,
  kCallsOverload,
};

// From any thread, at any time.
void Count(Metric metric, int64_t increment = 1);
// Of a gauge.
void SetGauge(Metric metric, int64_t value);
int64_t ReadMetric(Metric metric);

// Serves GET /metrics in Prometheus's text format, on threads of its own.
class MetricsEndpoint {
 public:
  // address: HOST:PORT. UNAVAILABLE: it is not to be had.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Open(
      const std::string& address);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

 private:
  struct Parts;

  explicit MetricsEndpoint(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TELEMETRY_METRICS_H_
