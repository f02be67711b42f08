#include "client/src/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "client/src/error_details.h"
#include "dedupe/client.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dedupe::client {
namespace {

using ::testing::IsEmpty;

google::rpc::Status DetailsOf(const std::string& reason,
                              const std::string& domain = "dedupe") {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(domain);
  google::rpc::Status status;
  status.add_details()->PackFrom(info);
  return status;
}

google::rpc::Status WithDelay(google::rpc::Status status, int64_t seconds,
                              int32_t nanos) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(seconds);
  retry.mutable_retry_delay()->set_nanos(nanos);
  status.add_details()->PackFrom(retry);
  return status;
}

TEST(ErrorDetailsTest, ReasonDomainAndDelayAreRead) {
  const ErrorDetails details = DecodeErrorDetails(
      WithDelay(DetailsOf("OVERLOADED"), 1, 500'000'000).SerializeAsString());
  EXPECT_EQ(details.reason, "OVERLOADED");
  EXPECT_EQ(details.domain, "dedupe");
  EXPECT_EQ(details.retry_delay, absl::Milliseconds(1500));
}

TEST(ErrorDetailsTest, NothingIsReadFromNothing) {
  const ErrorDetails details = DecodeErrorDetails("");
  EXPECT_THAT(details.reason, IsEmpty());
  EXPECT_FALSE(details.retry_delay.has_value());
}

// They come from the network.
TEST(ErrorDetailsTest, EveryCutAndEveryFlippedByteIsBorne) {
  const std::string whole =
      WithDelay(DetailsOf("OVERLOADED"), 1, 1).SerializeAsString();
  for (size_t i = 0; i < whole.size(); ++i) {
    DecodeErrorDetails(whole.substr(0, i));
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      DecodeErrorDetails(flipped);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string noise(random() % 64, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    DecodeErrorDetails(noise);
  }
}

Verdict JudgeOf(grpc::StatusCode code, const google::rpc::Status& details) {
  return Judge({code, "text", details.SerializeAsString()});
}

TEST(VerdictTest, OkIsAnswered) {
  EXPECT_EQ(Judge(grpc::Status::OK).kind, Verdict::Kind::kAnswered);
}

// What the contract leaves open is open, whoever says it.
TEST(VerdictTest, OpenCodesAreOpen) {
  for (const auto code :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::DEADLINE_EXCEEDED,
        grpc::StatusCode::CANCELLED}) {
    EXPECT_EQ(JudgeOf(code, {}).kind, Verdict::Kind::kOpen);
    EXPECT_EQ(JudgeOf(code, DetailsOf("STORE_DOWN")).kind,
              Verdict::Kind::kOpen);
  }
}

TEST(VerdictTest, DedupesOtherCodesAreDefinite) {
  for (int code = 2; code <= 16; ++code) {
    const auto grpc_code = static_cast<grpc::StatusCode>(code);
    if (grpc_code == grpc::StatusCode::UNAVAILABLE ||
        grpc_code == grpc::StatusCode::DEADLINE_EXCEEDED) {
      continue;
    }
    const Verdict verdict = JudgeOf(grpc_code, DetailsOf("SOME_REASON"));
    EXPECT_EQ(verdict.kind, Verdict::Kind::kRefused) << code;
    EXPECT_EQ(static_cast<int>(verdict.status.code()), code);
    EXPECT_EQ(ReasonOf(verdict.status), "SOME_REASON");
  }
}

// A proxy's INTERNAL does not say that nothing was done.
TEST(VerdictTest, OthersCodesAreOpenUnlessNothingCanHaveBeenHeard) {
  for (const auto& details :
       {google::rpc::Status(), DetailsOf("REASON", "proxy.example")}) {
    for (const auto code :
         {grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN,
          grpc::StatusCode::ABORTED, grpc::StatusCode::INVALID_ARGUMENT,
          grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::DATA_LOSS}) {
      EXPECT_EQ(JudgeOf(code, details).kind, Verdict::Kind::kOpen) << code;
      EXPECT_THAT(ReasonOf(JudgeOf(code, details).status), IsEmpty());
    }
    for (const auto code :
         {grpc::StatusCode::UNIMPLEMENTED, grpc::StatusCode::UNAUTHENTICATED,
          grpc::StatusCode::PERMISSION_DENIED,
          grpc::StatusCode::RESOURCE_EXHAUSTED}) {
      EXPECT_EQ(JudgeOf(code, details).kind, Verdict::Kind::kRefused) << code;
    }
  }
}

TEST(VerdictTest, ExhaustedWithADelayIsTurnedAway) {
  const Verdict verdict = JudgeOf(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                  WithDelay(DetailsOf("OVERLOADED"), 2, 0));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kTurnedAway);
  EXPECT_EQ(verdict.retry_delay, absl::Seconds(2));
}

TEST(VerdictTest, DelaysAreBounded) {
  for (const auto& [seconds, expected] :
       {std::pair<int64_t, absl::Duration>(1'000'000, absl::Seconds(60)),
        std::pair<int64_t, absl::Duration>(-5, absl::ZeroDuration())}) {
    EXPECT_EQ(JudgeOf(grpc::StatusCode::UNAVAILABLE,
                      WithDelay(DetailsOf("STORE_DOWN"), seconds, 0))
                  .retry_delay,
              expected);
  }
}

TEST(ReasonOfTest, OtherErrorsHaveNone) {
  EXPECT_THAT(ReasonOf(absl::OkStatus()), IsEmpty());
  EXPECT_THAT(ReasonOf(absl::InternalError("x")), IsEmpty());
}

}  // namespace
}  // namespace dedupe::client
