// What TLS and authentication cost: pairs of Begin and Complete per second, of
// a real server on a durable PostgreSQL. The kinds of callers take turns, so
// that what else the machine does falls on all of them.
//
//   DEDUPE_BUILD_DIR=build/release build/release/tests/bench/transport_cost
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "tests/end_to_end/access/tls_server.h"
#include "tests/end_to_end/deployment.h"
#include "tests/support/load.h"

ABSL_FLAG(int, rounds, 5, "how often each kind of callers is measured");
ABSL_FLAG(int, callers, 64, "each with one call in flight at any time");
ABSL_FLAG(int, channels, 4, "connections that they share");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(5), "of one measurement");

namespace dedupe::testing {
namespace {

// A kind of callers, and what was measured of it.
struct Kind {
  std::string name;
  std::string address;
  Identity identity;
  std::vector<double> pairs_per_second = {};
  std::vector<double> p50_ms = {};
  std::vector<double> p99_ms = {};
};

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void Measure(Kind& kind, int round) {
  const LoadResult result =
      RunPairs({.address = kind.address,
                .identity = kind.identity,
                .callers = absl::GetFlag(FLAGS_callers),
                .channels = absl::GetFlag(FLAGS_channels),
                .warm_up = absl::Seconds(1),
                .duration = absl::GetFlag(FLAGS_duration)});
  if (result.failures > 0) {
    absl::FPrintF(stderr, "%s: %d failures, such as: %s\n", kind.name,
                  result.failures, result.first_failure);
    std::exit(1);
  }
  kind.pairs_per_second.push_back(result.pairs_per_second);
  kind.p50_ms.push_back(absl::ToDoubleMilliseconds(result.begin_p50));
  kind.p99_ms.push_back(absl::ToDoubleMilliseconds(result.begin_p99));
  absl::PrintF("%d %-24s %8.0f %8.2f %8.2f\n", round, kind.name,
               kind.pairs_per_second.back(), kind.p50_ms.back(),
               kind.p99_ms.back());
  std::fflush(stdout);
}

Kind PlaintextCallers(Deployment& deployment) {
  return {.name = "plaintext, no identity",
          .address = deployment.server().address(),
          .identity = {}};
}

// Returns when the server knows who that is.
Kind TlsCallers(const std::string& name, TlsServer& server,
                const std::vector<std::string>& certificates,
                const CertificateAndKey& own) {
  std::vector<std::string> options = {"--role=caller", "--client-ids=acme"};
  options.insert(options.end(), certificates.begin(), certificates.end());
  server.administrator().SetPrincipal("load", options);
  std::vector<std::string> authorizations;
  if (certificates.empty()) {
    authorizations = {"Bearer " + server.administrator().CreateToken("load")};
  }
  Client client = server.NewClient(own, authorizations);
  if (!server.Settled(client, grpc::StatusCode::OK).ok()) {
    absl::FPrintF(stderr, "%s: not heard\n", name);
    std::exit(1);
  }
  return {.name = name,
          .address = server.deployment().server().address(),
          .identity = server.IdentityOf(own, authorizations)};
}

void Run() {
  PostgresCluster cluster({.durable = true, .settings = {}});
  Deployment plaintext({}, cluster);
  TlsServer by_token("optional", {}, cluster);
  TlsServer by_certificate("optional", {}, cluster);
  std::vector<Kind> kinds = {
      PlaintextCallers(plaintext), TlsCallers("TLS, token", by_token, {}, {}),
      TlsCallers("TLS, certificate", by_certificate,
                 {"--certificates=uri:spiffe://prod/load"},
                 IssueTo(by_certificate.client_authority(),
                         {"URI:spiffe://prod/load"}))};

  absl::PrintF("round, kind, pairs/s, Begin p50 ms, Begin p99 ms\n");
  // Each round begins with another, so that none always comes after the same.
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      Measure(kinds[(static_cast<size_t>(round) + i) % kinds.size()],
              round + 1);
    }
  }
  absl::PrintF("medians; pairs/s as a part of the first\n");
  for (const Kind& kind : kinds) {
    absl::PrintF(
        "  %-24s %8.0f %8.2f %8.2f %5.2f\n", kind.name,
        Median(kind.pairs_per_second), Median(kind.p50_ms), Median(kind.p99_ms),
        Median(kind.pairs_per_second) / Median(kinds.front().pairs_per_second));
  }
}

}  // namespace
}  // namespace dedupe::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  dedupe::testing::Run();
  return 0;
}
