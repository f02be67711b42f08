// A charge asked for by plain HTTP, without the shop: one request, no retries.
#ifndef DEDUPE_TESTS_PROOF_CHARGE_REQUEST_H_
#define DEDUPE_TESTS_PROOF_CHARGE_REQUEST_H_

#include <optional>
#include <ostream>
#include <string>

#include "absl/time/time.h"

namespace dedupe::testing {

struct ChargeRequest {
  // The header's value, as it is sent. None: no such header.
  std::optional<std::string> key_header;
  int amount = 4200;
  std::string card = "4242424242424242";
  // None if empty.
  std::string order_ref;
};

// A charge of the usual amount under this key.
ChargeRequest ChargeOf(const std::string& key);

struct ChargeReply {
  // 0: no answer came.
  int status = 0;
  std::string body;
  std::string content_type;
  // The headers' values; empty without them.
  std::string replayed;
  std::string retry_after;
  // Why no answer came.
  std::string error;
};

void PrintTo(const ChargeReply& reply, std::ostream* out);

// To the server at this port of 127.0.0.1, over a connection of its own.
ChargeReply PostCharge(int port, const ChargeRequest& request,
                       absl::Duration limit = absl::Seconds(20));

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_PROOF_CHARGE_REQUEST_H_
