// Calls a server that is not there, with 3 s of time, and prints how long that
// took by either clock.
#include <chrono>
#include <cstdio>

#include "dedupe/client.h"
#include "dedupe/key.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto client = dedupe::client::Client::Create({.target = argv[1]});
  if (!client.ok()) return 1;
  std::puts("calling");
  std::fflush(stdout);
  const auto wall = std::chrono::system_clock::now();
  const auto steady = std::chrono::steady_clock::now();
  const auto outcome =
      (*client)->Begin({.client_id = "acme",
                        .key = "k",

                        .fingerprint = "f",
                        .attempt_id = dedupe::client::NewAttemptId(),

                        .ttl = {}},
                       {.timeout = absl::Seconds(3)});
  std::printf(
      "wall %.3f steady %.3f\n",
      std::chrono::duration<double>(std::chrono::system_clock::now() - wall)
          .count(),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - steady)
          .count());
  return outcome.ok() &&
                 std::holds_alternative<dedupe::client::Unknown>(*outcome)
             ? 0
             : 1;
}
