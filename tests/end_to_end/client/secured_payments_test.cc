// The payments example on a dedupe that asks for TLS and a token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/end_to_end/client/secured_deployment.h"
#include "tests/proof/charge_request.h"
#include "tests/proof/ledger.h"
#include "tests/proof/payments_process.h"

namespace dedupe::testing {
namespace {

std::string WriteFile(const std::string& name, const std::string& text) {
  std::string path = absl::StrCat(ScratchDirectory(), "/", name);
  std::ofstream(path) << text;
  return path;
}

using SecuredPaymentsTest = SecuredTest;

TEST_F(SecuredPaymentsTest, ChargeIsBookedOnceAndReplayed) {
  const std::string token = NewToken();
  Server().administrator().SetPrincipal(Name(),
                                        {"--role=caller", "--client-ids=acme"});
  Client client = Server().NewClient({}, {"Bearer " + token});
  ASSERT_TRUE(Server().Settled(client, grpc::StatusCode::OK).ok());
  const Ledger ledger(PostgresCluster::Shared(), Door::kReceipts);
  PaymentsOptions options;
  options.ledger_url = ledger.url();
  options.dedupe_target = Address();
  options.dedupe_ca_file =
      WriteFile("ca.pem", Server().server_authority().certificate_pem());
  options.dedupe_token_file = WriteFile("payments.token", token + "\n");
  const PaymentsServer payments(options);

  const ChargeReply first = PostCharge(payments.port(), ChargeOf("k"));
  EXPECT_EQ(first.status, 201) << first.body;
  const ChargeReply second = PostCharge(payments.port(), ChargeOf("k"));
  EXPECT_EQ(second.replayed, "true") << second.body;
  EXPECT_EQ(ledger.Charges(), 1);
}

}  // namespace
}  // namespace dedupe::testing
