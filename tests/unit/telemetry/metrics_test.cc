// Metrics: counted, and read as Prometheus reads them.
#include "server/telemetry/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace dedupe {
namespace {

using ::testing::HasSubstr;

// A socket of the loopback interface; port 0: any.
int LoopbackSocket() { return socket(AF_INET, SOCK_STREAM, 0); }

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int FreePort() {
  const int listener = LoopbackSocket();
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  close(listener);
  return ntohs(address.sin_port);
}

std::string Get(int port, const std::string& path) {
  const int peer = LoopbackSocket();
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(connect(peer, reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)),
            0);
  const std::string request = absl::StrCat(
      "GET ", path, " HTTP/1.1\r\nHost: acme\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(write(peer, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t size; (size = read(peer, buffer, sizeof(buffer))) > 0;) {
    answer.append(buffer, static_cast<size_t>(size));
  }
  close(peer);
  return answer;
}

TEST(MetricsTest, CountersAddUpAndGaugesAreSet) {
  const int64_t before = ReadMetric(Metric::kCallsForbidden);
  Count(Metric::kCallsForbidden);
  Count(Metric::kCallsForbidden, 2);
  EXPECT_EQ(ReadMetric(Metric::kCallsForbidden), before + 3);
  SetGauge(Metric::kConnections, 7);
  EXPECT_EQ(ReadMetric(Metric::kConnections), 7);
}

TEST(MetricsEndpointTest, ServesWhatWasCounted) {
  const int port = FreePort();
  auto endpoint = MetricsEndpoint::Open(absl::StrCat("127.0.0.1:", port));
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  SetGauge(Metric::kConnections, 42);
  const std::string metrics = Get(port, "/metrics");
  EXPECT_THAT(metrics, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(metrics, HasSubstr("# TYPE dedupe_connections gauge\n"
                                 "dedupe_connections 42\n"));
  EXPECT_THAT(metrics,
              HasSubstr("# TYPE dedupe_calls_forbidden_total counter\n"));
  EXPECT_THAT(metrics, HasSubstr("# HELP dedupe_certificate_refusals_total"));
}

TEST(MetricsEndpointTest, AddressThatIsNotToBeHadIsSaid) {
  const int port = FreePort();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  auto first = MetricsEndpoint::Open(address);
  ASSERT_TRUE(first.ok()) << first.status();
  for (const std::string& wrong : {address, std::string("nonsense")}) {
    const auto second = MetricsEndpoint::Open(wrong);
    EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr("DEDUPE_METRICS_ADDRESS"));
  }
}

}  // namespace
}  // namespace dedupe
