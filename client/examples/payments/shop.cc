// A client that wants one charge, and asks until it knows: its key is in a
// journal before anything is sent, so it asks for the same charge after a crash
// too.
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/usage.h"
#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/examples/payments/command_line.h"
#include "dedupe/fingerprint.h"
#include "dedupe/http.h"
#include "dedupe/journal.h"

ABSL_FLAG(std::string, url, "", "such as http://127.0.0.1:8080");
ABSL_FLAG(std::string, secret, "test-secret", "the shop's API key");
ABSL_FLAG(std::string, journal, "", "path of the journal file");
ABSL_FLAG(std::string, vessel, "",
          "what the charge is for, such as this checkout; the key follows it");
ABSL_FLAG(int64_t, amount, 0, "cents");
ABSL_FLAG(std::string, currency, "EUR", "three letters");
ABSL_FLAG(std::string, card, "4242424242424242",
          "cards that end in 0002 are refused");
ABSL_FLAG(std::string, order_ref, "", "optional");
ABSL_FLAG(absl::Duration, try_timeout, absl::Seconds(2), "for one sending");
ABSL_FLAG(int, tries, 20, "sendings before giving up");
ABSL_FLAG(std::string, kill_at, "",
          "after-journal or after-send: a crash there, by SIGKILL");

namespace shop {
namespace {

using dedupe::client::Intent;
using dedupe::client::Journal;

constexpr char kPath[] = "/v1/charges";
constexpr char kContentType[] = "application/json";
constexpr absl::Duration kBackoffFirst = absl::Milliseconds(50);
constexpr absl::Duration kBackoffMax = absl::Seconds(2);
constexpr absl::Duration kRetryAfterMax = absl::Minutes(1);

// How the program ends.
constexpr int kAnswered = 0;
constexpr int kNotSent = 1;
constexpr int kGaveUp = 2;

void CrashAt(const char* point) {
  if (absl::GetFlag(FLAGS_kill_at) == point) raise(SIGKILL);
}

// The same bytes for every try: the server compares them.
std::string MakeBody() {
  nlohmann::json body = {{"amount", absl::GetFlag(FLAGS_amount)},
                         {"currency", absl::GetFlag(FLAGS_currency)},
                         {"card", absl::GetFlag(FLAGS_card)}};
  const std::string order_ref = absl::GetFlag(FLAGS_order_ref);
  if (!order_ref.empty()) body["order_ref"] = order_ref;
  return body.dump();
}

struct Answer {
  int status = 0;
  bool replayed = false;
  std::optional<absl::Duration> retry_after;
  std::string body;
};

// Nothing: no answer came, and whether the charge was made is open.
std::optional<Answer> SendOnce(const std::string& key_header,
                               const std::string& body) {
  httplib::Client client(absl::GetFlag(FLAGS_url));
  const auto timeout =
      absl::ToChronoMicroseconds(absl::GetFlag(FLAGS_try_timeout));
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  client.set_write_timeout(timeout);
  const httplib::Headers headers = {
      {"Authorization", absl::StrCat("Bearer ", absl::GetFlag(FLAGS_secret))},
      {dedupe::client::kIdempotencyKeyHeader, key_header}};
  const httplib::Result result = client.Post(
      kPath, headers, body.size(),
      [&body](size_t offset, size_t length, httplib::DataSink& sink) {
        const bool sent = sink.write(body.data() + offset, length);
        CrashAt("after-send");
        return sent;
      },
      kContentType);
  if (!result) return std::nullopt;
  Answer answer;
  answer.status = result->status;
  answer.replayed =
      result->get_header_value(dedupe::client::kReplayedHeader) == "true";
  int64_t seconds = 0;
  if (absl::SimpleAtoi(result->get_header_value("Retry-After"), &seconds) &&
      seconds >= 0) {
    answer.retry_after = std::min(absl::Seconds(seconds), kRetryAfterMax);
  }
  answer.body = result->body;
  return answer;
}

// Whether asking again, with the same key, may bring another answer.
bool IsWorthRetrying(const Answer& answer) {
  // Stored: it is the last word, whatever its status.
  if (answer.replayed) return false;
  if (answer.status == 409) return answer.retry_after.has_value();
  return answer.status == 408 || answer.status == 425 || answer.status == 429 ||
         answer.status >= 500;
}

// An answer about who is asking, or that a person has to look (409 without a
// time to come back), says nothing about the charge, which an earlier try may
// have made: the intent stays pending, and is asked for again when that is
// mended.
bool IsForSomebodyElse(const Answer& answer) {
  if (answer.replayed) return false;
  return answer.status == 401 || answer.status == 403 ||
         (answer.status == 409 && !answer.retry_after.has_value());
}

// Full jitter, so that the retries of many shops do not come in step.
absl::Duration Backoff(int tries) {
  static absl::BitGen random;
  const absl::Duration limit =
      std::min(kBackoffMax, kBackoffFirst * (1 << std::min(tries - 1, 10)));
  return limit * absl::Uniform(random, 0.0, 1.0);
}

void Print(const Intent& intent, const Answer& answer, int tries) {
  std::printf("key=%s status=%d replayed=%s tries=%d body=%s\n",
              intent.key.c_str(), answer.status,
              answer.replayed ? "true" : "false", tries, answer.body.c_str());
}

int AskUntilAnswered(const Intent& intent, const std::string& key_header,
                     const std::string& body, Journal& journal) {
  const int tries_max = absl::GetFlag(FLAGS_tries);
  for (int tries = 1; tries <= tries_max; ++tries) {
    const std::optional<Answer> answer = SendOnce(key_header, body);
    if (answer.has_value() && !IsWorthRetrying(*answer) &&
        !IsForSomebodyElse(*answer)) {
      const absl::Status settled = journal.Settle(intent.vessel);
      // The answer is right all the same; the next start asks again.
      if (!settled.ok()) {
        std::fprintf(stderr, "%s\n", settled.ToString().c_str());
      }
      Print(intent, *answer, tries);
      return kAnswered;
    }
    if (answer.has_value() && IsForSomebodyElse(*answer)) break;
    if (tries == tries_max) break;
    absl::Duration pause = Backoff(tries);
    if (answer.has_value() && answer->retry_after.has_value()) {
      pause = std::max(pause, *answer->retry_after);
    }
    absl::SleepFor(pause);
  }
  std::fprintf(stderr, "no answer; the intent stays pending\n");
  return kGaveUp;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return kNotSent;
}

int Run() {
  // A server that hangs up while we write is no more than a lost try.
  signal(SIGPIPE, SIG_IGN);
  if (absl::GetFlag(FLAGS_url).empty() ||
      absl::GetFlag(FLAGS_journal).empty()) {
    return Fail(absl::InvalidArgumentError("--url and --journal are needed"));
  }
  const std::string body = MakeBody();
  absl::StatusOr<std::unique_ptr<Journal>> journal =
      Journal::Open(absl::GetFlag(FLAGS_journal));
  if (!journal.ok()) return Fail(journal.status());
  const absl::StatusOr<Intent> intent = (*journal)->Intend(
      absl::GetFlag(FLAGS_vessel),
      dedupe::client::FingerprintRaw({.operation = absl::StrCat("POST ", kPath),
                                      .content_type = kContentType,
                                      .body = body}));
  if (!intent.ok()) return Fail(intent.status());
  CrashAt("after-journal");
  const absl::StatusOr<std::string> key_header =
      dedupe::client::FormatIdempotencyKey(intent->key);
  if (!key_header.ok()) return Fail(key_header.status());
  return AskUntilAnswered(*intent, *key_header, body, **journal);
}

}  // namespace
}  // namespace shop

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Asks the payments service for one charge.");
  payments::ParseCommandLine(argc, argv);
  return shop::Run();
}
