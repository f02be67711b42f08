#include "server/telemetry/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <array>
#include <atomic>
#include <exception>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace dedupe {
namespace {

struct Row {
  Metric metric;
  const char* name;
  prometheus::MetricType type;
  const char* help;
};

constexpr auto kCounter = prometheus::MetricType::Counter;
constexpr auto kGauge = prometheus::MetricType::Gauge;

// In the order of the enumeration, so that a metric is its row's number.
constexpr Row kRows[] = {
    {Metric::kConnections, "dedupe_connections", kGauge,
     "Connections of callers that are open."},
    {Metric::kConnectionsAccepted, "dedupe_connections_accepted_total",
     kCounter, "Connections taken in."},
    {Metric::kConnectionsRefused, "dedupe_connections_refused_total", kCounter,
     "Connections closed at once, because there were too many."},
    {Metric::kConnectionsCut, "dedupe_connections_cut_total", kCounter,
     "Connections reset because their peer did not read its replies, or reset"
     " or exceeded its calls by the thousand."},
    {Metric::kAcceptFailures, "dedupe_accept_failures_total", kCounter,
     "Failures to take a connection in, such as for want of descriptors."},
    {Metric::kCertificateNotAfter,
     "dedupe_certificate_not_after_timestamp_seconds", kGauge,
     "When the certificate being served expires; 0 without TLS."},
    {Metric::kCertificateReloads, "dedupe_certificate_reloads_total", kCounter,
     "Times that a new certificate was put in place."},
    {Metric::kCertificateRefusals, "dedupe_certificate_refusals_total",
     kCounter, "Times that new certificate files were not fit to be used."},
    {Metric::kAccessListAge, "dedupe_access_list_age_milliseconds", kGauge,
     "Time since the list of principals and tokens was known to be current."},
    {Metric::kCallsInFlight, "dedupe_calls_in_flight", kGauge,
     "Calls that have begun and whose reply is not yet taken."},
    {Metric::kCallsUnauthenticated, "dedupe_calls_unauthenticated_total",
     kCounter, "Calls refused for want of valid credentials."},
    {Metric::kCallsForbidden, "dedupe_calls_forbidden_total", kCounter,
     "Calls refused because their principal may not make them."},
    {Metric::kCallsOverQuota, "dedupe_calls_over_quota_total", kCounter,
     "Calls refused because their principal's quota was used up."},
    {Metric::kCallsOverload, "dedupe_calls_overload_total", kCounter,
     "Calls refused because too many were in flight or queued."},
};

constexpr bool RowsStandInOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].metric) != i) return false;
  }
  return true;
}
static_assert(RowsStandInOrder());
static_assert(std::size(kRows) ==
              static_cast<size_t>(Metric::kCallsOverload) + 1);

std::array<std::atomic<int64_t>, std::size(kRows)>& Values() {
  static std::array<std::atomic<int64_t>, std::size(kRows)> values{};
  return values;
}

// All of them, as they are at this moment.
class Collection final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    families.reserve(std::size(kRows));
    for (const Row& row : kRows) {
      prometheus::ClientMetric metric;
      const auto value = static_cast<double>(ReadMetric(row.metric));
      metric.counter.value = value;
      metric.gauge.value = value;
      families.push_back({row.name, row.help, row.type, {metric}});
    }
    return families;
  }
};

std::atomic<int64_t>& ValueOf(Metric metric) {
  return Values()[static_cast<size_t>(metric)];
}

}  // namespace

struct MetricsEndpoint::Parts {
  // Throws if the address is not to be had.
  explicit Parts(const std::string& address) : exposer(address, 1) {
    exposer.RegisterCollectable(collection);
  }

  const std::shared_ptr<Collection> collection = std::make_shared<Collection>();
  prometheus::Exposer exposer;
};

void Count(Metric metric, int64_t increment) {
  ValueOf(metric).fetch_add(increment, std::memory_order_relaxed);
}

void SetGauge(Metric metric, int64_t value) {
  ValueOf(metric).store(value, std::memory_order_relaxed);
}

int64_t ReadMetric(Metric metric) {
  return ValueOf(metric).load(std::memory_order_relaxed);
}

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

MetricsEndpoint::~MetricsEndpoint() = default;

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Open(
    const std::string& address) {
  try {
    return absl::WrapUnique(
        new MetricsEndpoint(std::make_unique<Parts>(address)));
  } catch (const std::exception&) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on \"", address,
                     "\": it is in use, or not HOST:PORT of this machine; set"
                     " --metrics-address (DEDUPE_METRICS_ADDRESS)"));
  }
}

}  // namespace dedupe
