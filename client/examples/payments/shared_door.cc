// The ledger and dedupe share a database: the charge and the completion of its
// key commit in one transaction, through dedupe's SQL functions. There is
// nothing to reconcile: what has not completed has not committed.
#include <chrono>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/examples/payments/charging.h"
#include "client/examples/payments/ledger.h"
#include "dedupe/key.h"

namespace payments {
namespace {

using dedupe::client::Done;
using dedupe::client::Freed;
using dedupe::client::InDoubt;
using dedupe::client::InProgress;
using dedupe::client::Mismatch;
using dedupe::client::NothingHappened;
using dedupe::client::Ran;
using dedupe::client::Replay;
using dedupe::client::Response;
using dedupe::client::RunOnceOutcome;
using dedupe::client::Unknown;
using dedupe::client::WorkResult;
using nlohmann::json;

constexpr char kBegin[] =
    "SELECT outcome, fence, response_code, response_headers::text AS headers, "
    "encode(response_body, 'hex') AS body, body_omitted "
    "FROM dedupe.begin($1, $2, $3, decode($4, 'hex'), $5, $6::interval, "
    "$7::interval)";
constexpr char kComplete[] =
    "SELECT dedupe.complete($1, $2, $3, $4, $5, decode($6, 'hex'), $7::jsonb)";
constexpr char kRelease[] = "SELECT dedupe.release($1, $2, $3, $4)";

// How often a request that waits looks again.
constexpr absl::Duration kPollInterval = absl::Milliseconds(50);

std::string ToInterval(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Microseconds(duration), " microseconds");
}

std::string HeadersToJson(const Response& response) {
  json pairs = json::array();
  for (const auto& header : response.headers) {
    pairs.push_back(json::array({header.name, header.value}));
  }
  return pairs.dump();
}

Response ReadResponse(const pqxx::row& row) {
  Response response;
  response.code = row["response_code"].as<int32_t>();
  response.body_omitted = row["body_omitted"].as<bool>();
  response.body =
      absl::HexStringToBytes(row["body"].as<std::string>(std::string()));
  for (const json& pair : json::parse(row["headers"].as<std::string>("[]"))) {
    response.headers.push_back({pair.at(0), pair.at(1)});
  }
  return response;
}

// One try of one request.
struct SharedAttempt {
  const KeyedRequest& request;
  const std::string id = dedupe::client::NewAttemptId();
  int64_t fence = 0;
  // The lease holds until then for certain: counted from before the Begin that
  // was answered, on a clock that nobody sets.
  std::chrono::steady_clock::time_point holds_until = {};
};

// Raises unless this very call stores the response, so that nothing commits
// with it that has no right to.
void Complete(pqxx::transaction_base& transaction, const SharedAttempt& attempt,
              const Response& response) {
  transaction.exec_params(kComplete, attempt.request.client_id,
                          attempt.request.key, attempt.id, attempt.fence,
                          response.code, absl::BytesToHexString(response.body),
                          HeadersToJson(response));
}

class SharedDoor : public ChargingDoor {
 public:
  SharedDoor(const ChargingOptions& options, Faults& faults)
      : options_(options), faults_(faults), charging_(options, faults) {}

  absl::StatusOr<RunOnceOutcome> Charge(const KeyedRequest& request) override {
    try {
      const std::unique_ptr<pqxx::connection> ledger =
          OpenLedger(options_.ledger_url);
      SharedAttempt attempt{request};
      std::optional<RunOnceOutcome> otherwise = Begin(*ledger, attempt);
      if (otherwise.has_value()) return *std::move(otherwise);
      return Run(*ledger, attempt);
    } catch (const pqxx::sql_error& error) {
      // dedupe has refused: the key was taken over, or completed. Whatever was
      // booked went with the transaction.
      if (absl::StartsWith(error.sqlstate(), "DD")) return Freed{};
      return Unknown{absl::InternalError("the database refused")};
    } catch (const std::exception&) {
      // The connection broke, or a commit is in doubt. The key stays taken
      // until its lease lapses; then the database knows.
      return Unknown{absl::UnavailableError("the database did not answer")};
    }
  }

 private:
  // Nothing: the attempt may run, and has its fence.
  std::optional<RunOnceOutcome> Begin(pqxx::connection& ledger,
                                      SharedAttempt& attempt) {
    const absl::Time until = absl::Now() + options_.wait;
    for (;;) {
      attempt.holds_until = std::chrono::steady_clock::now() +
                            absl::ToChronoMicroseconds(options_.lease);
      const pqxx::row row = AskToBegin(ledger, attempt);
      const auto outcome = row["outcome"].as<std::string>();
      if (outcome == "started") {
        attempt.fence = row["fence"].as<int64_t>();
        return std::nullopt;
      }
      if (outcome == "replay") {
        Replay replay;
        replay.response = ReadResponse(row);
        return replay;
      }
      if (outcome == "mismatch") return Mismatch{};
      if (outcome == "in_doubt") return InDoubt{};
      if (absl::Now() >= until || options_.stop.stop_requested()) {
        InProgress in_progress;
        in_progress.retry_after = absl::Seconds(1);
        return in_progress;
      }
      absl::SleepFor(kPollInterval);
    }
  }

  pqxx::row AskToBegin(pqxx::connection& ledger, const SharedAttempt& attempt) {
    // By itself and before the work, so that others are told in_progress.
    pqxx::nontransaction by_itself(ledger);
    return by_itself.exec_params(
        kBegin, attempt.request.client_id, attempt.request.key,
        attempt.request.operation,
        absl::BytesToHexString(attempt.request.fingerprint), attempt.id,
        ToInterval(options_.lease), ToInterval(options_.ttl))[0];
  }

  RunOnceOutcome Run(pqxx::connection& ledger, const SharedAttempt& attempt) {
    auto prepared = charging_.Prepare(attempt.request, ledger, [&] {
      return std::chrono::steady_clock::now() < attempt.holds_until &&
             !options_.stop.stop_requested();
    });
    if (auto* result = std::get_if<WorkResult>(&prepared)) {
      return Settle(ledger, attempt, std::move(*result));
    }
    pqxx::work transaction(ledger);
    Ran ran;
    ran.response = BookCharge(transaction, attempt.request,
                              std::get<ChargeOrder>(prepared));
    Complete(transaction, attempt, ran.response);
    transaction.commit();
    faults_.Reach(FaultPoint::kAfterCommit);
    return ran;
  }

  // For an answer without a charge.
  RunOnceOutcome Settle(pqxx::connection& ledger, const SharedAttempt& attempt,
                        WorkResult result) {
    if (auto* unknown = std::get_if<Unknown>(&result)) {
      return std::move(*unknown);
    }
    pqxx::work transaction(ledger);
    RunOnceOutcome outcome;
    if (auto* done = std::get_if<Done>(&result)) {
      Complete(transaction, attempt, done->response);
      Ran ran;
      ran.response = std::move(done->response);
      outcome = std::move(ran);
    } else {
      transaction.exec_params(kRelease, attempt.request.client_id,
                              attempt.request.key, attempt.id, attempt.fence);
      outcome = Freed{std::get<NothingHappened>(std::move(result)).answer};
    }
    transaction.commit();
    return outcome;
  }

  const ChargingOptions options_;
  Faults& faults_;
  Charging charging_;
};

}  // namespace

std::unique_ptr<ChargingDoor> MakeSharedDoor(const ChargingOptions& options,
                                             Faults& faults) {
  return std::make_unique<SharedDoor>(options, faults);
}

}  // namespace payments
