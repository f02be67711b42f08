#include "tests/proof/charge_request.h"

#include <httplib.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/proof/payments_process.h"

namespace dedupe::testing {

ChargeRequest ChargeOf(const std::string& key) {
  ChargeRequest request;
  request.key_header = absl::StrCat("\"", key, "\"");
  return request;
}

void PrintTo(const ChargeReply& reply, std::ostream* out) {
  *out << reply.status << " " << reply.content_type
       << " replayed=" << reply.replayed << " retry_after=" << reply.retry_after
       << " " << reply.error << reply.body;
}

ChargeReply PostCharge(int port, const ChargeRequest& request,
                       absl::Duration limit) {
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(absl::ToChronoMicroseconds(limit));
  httplib::Headers headers = {
      {"Authorization", absl::StrCat("Bearer ", kSecret)}};
  if (request.key_header.has_value()) {
    headers.emplace("Idempotency-Key", *request.key_header);
  }
  nlohmann::json body = {
      {"amount", request.amount}, {"currency", "EUR"}, {"card", request.card}};
  if (!request.order_ref.empty()) body["order_ref"] = request.order_ref;
  const httplib::Result result =
      client.Post("/v1/charges", headers, body.dump(), "application/json");
  if (!result) {
    ChargeReply none;
    none.error = httplib::to_string(result.error());
    return none;
  }
  return {result->status,
          result->body,
          result->get_header_value("Content-Type"),
          result->get_header_value("Idempotent-Replayed"),
          result->get_header_value("Retry-After"),
          ""};
}

}  // namespace dedupe::testing
