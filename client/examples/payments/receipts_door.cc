// The ledger's database knows nothing of dedupe: RunOnce keeps the books, and a
// receipt, committed with the charge, tells the next attempt what became of
// this one.
#include <grpcpp/security/credentials.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "client/examples/payments/charging.h"
#include "client/examples/payments/ledger.h"
#include "dedupe/client.h"
#include "dedupe/receipts.h"
#include "dedupe/run_once.h"

namespace payments {
namespace {

using dedupe::client::Attempt;
using dedupe::client::Client;
using dedupe::client::CommitWithReceipt;
using dedupe::client::Done;
using dedupe::client::NothingHappened;
using dedupe::client::ReconcileByReceipt;
using dedupe::client::Reconciled;
using dedupe::client::Response;
using dedupe::client::RunOnceOutcome;
using dedupe::client::RunOnceRequest;
using dedupe::client::WorkResult;

class ReceiptsDoor : public ChargingDoor {
 public:
  ReceiptsDoor(std::unique_ptr<Client> client, const ChargingOptions& options,
               Faults& faults)
      : client_(std::move(client)),
        options_(options),
        faults_(faults),
        charging_(options, faults) {}

  absl::StatusOr<RunOnceOutcome> Charge(const KeyedRequest& request) override {
    RunOnceRequest once;
    once.client_id = request.client_id;
    once.key = request.key;
    once.operation = request.operation;
    once.fingerprint = request.fingerprint;
    once.lease = options_.lease;
    once.ttl = options_.ttl;
    once.wait = options_.wait;
    once.stop = options_.stop;
    once.reconcile = [this](Attempt& attempt) {
      const std::unique_ptr<pqxx::connection> ledger =
          OpenLedger(options_.ledger_url);
      return Look(*ledger, attempt);
    };
    return RunOnce(*client_, once, [this, &request](Attempt& attempt) {
      return Work(request, attempt);
    });
  }

 private:
  // What became of the attempts before this one?
  static Reconciled Look(pqxx::connection& ledger, const Attempt& attempt) {
    Reconciled found = ReconcileByReceipt(ledger, attempt.info());
    std::fprintf(stderr, "attempt %d takes over: %s\n",
                 attempt.info().attempt_number,
                 std::holds_alternative<Done>(found) ? "found a receipt"
                 : std::holds_alternative<NothingHappened>(found)
                     ? "voided the ones before"
                     : "cannot tell yet");
    return found;
  }

  // What it throws, RunOnce takes for Unknown: the card may be authorised.
  WorkResult Work(const KeyedRequest& request, Attempt& attempt) {
    const std::unique_ptr<pqxx::connection> ledger =
        OpenLedger(options_.ledger_url);
    auto prepared = charging_.Prepare(request, *ledger, [&attempt] {
      return attempt.lease_left() > absl::ZeroDuration() &&
             !attempt.stop_token().stop_requested();
    });
    if (auto* result = std::get_if<WorkResult>(&prepared)) {
      return std::move(*result);
    }
    pqxx::work transaction(*ledger);
    Response answer =
        BookCharge(transaction, request, std::get<ChargeOrder>(prepared));
    WorkResult result =
        CommitWithReceipt(transaction, attempt.info(), std::move(answer));
    if (std::holds_alternative<NothingHappened>(result)) {
      std::fprintf(stderr, "attempt %d was not to commit\n",
                   attempt.info().attempt_number);
    }
    if (std::holds_alternative<Done>(result)) {
      faults_.Reach(FaultPoint::kAfterCommit);
    }
    return result;
  }

  const std::unique_ptr<Client> client_;
  const ChargingOptions options_;
  Faults& faults_;
  Charging charging_;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const DedupeServer& dedupe) {
  dedupe::client::ClientOptions options;
  options.target = dedupe.target;
  if (!dedupe.ca_file.empty()) {
    std::ifstream file(dedupe.ca_file);
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs.assign(std::istreambuf_iterator<char>(file), {});
    // Without any, gRPC would trust all that the machine trusts.
    if (tls.pem_root_certs.empty()) {
      return absl::InvalidArgumentError("--dedupe-ca-file cannot be read");
    }
    options.credentials = grpc::SslCredentials(tls);
  }
  if (!dedupe.token_file.empty()) {
    options.token = dedupe::client::TokenFromFile(dedupe.token_file);
  }
  return Client::Create(std::move(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChargingDoor>> MakeReceiptsDoor(
    const DedupeServer& dedupe, const ChargingOptions& options,
    Faults& faults) {
  absl::StatusOr<std::unique_ptr<Client>> client = Connect(dedupe);
  if (!client.ok()) return client.status();
  return std::make_unique<ReceiptsDoor>(*std::move(client), options, faults);
}

}  // namespace payments
