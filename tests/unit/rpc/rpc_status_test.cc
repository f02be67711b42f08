// What a refusal becomes on the wire, read back as a client would.
#include "server/rpc/rpc_status.h"

#include <gmock/gmock.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/service/reason.h"
#include "tests/unit/refusal_matchers.h"

namespace dedupe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr size_t kReasons = static_cast<size_t>(Reason::kStoreBroken) + 1;

std::vector<Reason> Reasons() {
  std::vector<Reason> reasons;
  for (size_t i = 1; i < kReasons; ++i) {
    reasons.push_back(static_cast<Reason>(i));
  }
  return reasons;
}

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

// The one detail of that type.
template <typename Detail>
std::optional<Detail> Find(const grpc::Status& status) {
  const google::rpc::Status details = DetailsOf(status);
  std::optional<Detail> found;
  for (const auto& any : details.details()) {
    Detail detail;
    if (!any.UnpackTo(&detail)) continue;
    EXPECT_FALSE(found.has_value()) << "twice";
    found = detail;
  }
  return found;
}

class RpcStatusOfReasonTest : public ::testing::TestWithParam<Reason> {};

TEST_P(RpcStatusOfReasonTest, CodeAndTextAreThoseOfTheRefusal) {
  const absl::Status refusal = Refusal(GetParam());
  const grpc::Status status = ToRpcStatus(refusal);
  EXPECT_EQ(static_cast<int>(status.error_code()),
            static_cast<int>(refusal.code()));
  EXPECT_EQ(status.error_message(), refusal.message());
}

TEST_P(RpcStatusOfReasonTest, DetailsRepeatCodeAndText) {
  const grpc::Status status = ToRpcStatus(Refusal(GetParam()));
  if (ReasonName(GetParam()).empty()) return;
  EXPECT_EQ(DetailsOf(status).code(), status.error_code());
  EXPECT_EQ(DetailsOf(status).message(), status.error_message());
}

TEST_P(RpcStatusOfReasonTest, ErrorInfoNamesTheReason) {
  const grpc::Status status = ToRpcStatus(Refusal(GetParam()));
  const auto info = Find<google::rpc::ErrorInfo>(status);
  ASSERT_EQ(info.has_value(), !ReasonName(GetParam()).empty());
  if (!info.has_value()) return;
  EXPECT_EQ(info->reason(), ReasonName(GetParam()));
  EXPECT_EQ(info->domain(), "dedupe");
}

TEST_P(RpcStatusOfReasonTest, RetryInfoComesWithWhatIsWorthRepeating) {
  const grpc::Status status = ToRpcStatus(Refusal(GetParam()));
  const auto retry = Find<google::rpc::RetryInfo>(status);
  const bool worth_repeating =
      status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  ASSERT_EQ(retry.has_value(), worth_repeating);
  if (!retry.has_value()) return;
  // What a quota allows comes back more slowly than a full queue empties.
  const bool is_quota = GetParam() == Reason::kQuota;
  EXPECT_EQ(retry->retry_delay().seconds(), is_quota ? 1 : 0);
  EXPECT_EQ(retry->retry_delay().nanos(), is_quota ? 0 : 100'000'000);
}

TEST(RpcStatusTest, QuotaIsNamedInTheMetadata) {
  const auto info = Find<google::rpc::ErrorInfo>(
      ToRpcStatus(Refusal(Reason::kQuota, "live_keys")));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->metadata().at("quota"), "live_keys");
}

TEST_P(RpcStatusOfReasonTest, BadRequestNamesTheField) {
  const absl::Status refusal = Refusal(GetParam(), "response.headers[3].name");
  if (!absl::IsInvalidArgument(refusal)) return;
  const auto bad_request = Find<google::rpc::BadRequest>(ToRpcStatus(refusal));
  ASSERT_TRUE(bad_request.has_value());
  ASSERT_EQ(bad_request->field_violations_size(), 1);
  EXPECT_EQ(bad_request->field_violations(0).field(),
            "response.headers[3].name");
  EXPECT_EQ(bad_request->field_violations(0).description(), refusal.message());
}

TEST_P(RpcStatusOfReasonTest, WithoutAFieldThereIsNoBadRequest) {
  EXPECT_FALSE(Find<google::rpc::BadRequest>(ToRpcStatus(Refusal(GetParam())))
                   .has_value());
}

// Both go into the trailers, of which some proxies allow only 8 KiB.
TEST_P(RpcStatusOfReasonTest, TextAndDetailsAreShort) {
  const grpc::Status status =
      ToRpcStatus(Refusal(GetParam(), "response.headers[63].value"));
  EXPECT_LE(status.error_message().size(), 1024u);
  EXPECT_LE(status.error_details().size(), 1024u);
}

INSTANTIATE_TEST_SUITE_P(All, RpcStatusOfReasonTest,
                         ::testing::ValuesIn(Reasons()),
                         [](const auto& tested) {
                           std::string name =
                               "Number" + std::to_string(tested.index + 1);
                           for (const char c : ReasonName(tested.param)) {
                             if (c != '_') name += c;
                           }
                           return name;
                         });

TEST(RpcStatusTest, OkStaysOk) {
  EXPECT_TRUE(ToRpcStatus(absl::OkStatus()).ok());
}

TEST(RpcStatusTest, DeadlinesAndCancellationsAreGrpcsOwn) {
  EXPECT_EQ(ToRpcStatus(Refusal(Reason::kDeadlineExceeded)).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ToRpcStatus(Refusal(Reason::kCancelled)).error_code(),
            grpc::StatusCode::CANCELLED);
}

// Its text may hold SQL, a key or a password.
TEST(RpcStatusTest, OfAnUnknownStatusNothingLeaks) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kInternal,
        absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnknown,
        absl::StatusCode::kAborted}) {
    absl::Status status(code, "SELECT secret");
    status.SetPayload("dedupe/field", absl::Cord("secret"));
    const grpc::Status sent = ToRpcStatus(status);
    EXPECT_EQ(sent.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_THAT(sent.error_message(), Not(HasSubstr("secret")));
    EXPECT_THAT(sent.error_message(), Not(HasSubstr("SELECT")));
    EXPECT_THAT(sent.error_details(), IsEmpty());
  }
}

}  // namespace
}  // namespace dedupe
