#include "dedupe/client.h"

#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/src/client_impl.h"
#include "client/src/codec.h"
#include "client/src/utf8.h"

namespace dedupe::client {
namespace {

constexpr absl::Duration kTimeoutMax = absl::Seconds(60);
constexpr absl::Duration kTimeoutMin = absl::Milliseconds(10);
constexpr absl::Duration kBackoffMin = absl::Milliseconds(1);
constexpr absl::Duration kWaitMax = absl::Seconds(30);
constexpr int kTriesMax = 100;

absl::Status CheckRange(absl::string_view name, absl::Duration value,
                        absl::Duration least, absl::Duration greatest) {
  if (least <= value && value <= greatest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is not between ", absl::FormatDuration(least),
                   " and ", absl::FormatDuration(greatest)));
}

absl::Status Check(const ClientOptions& options) {
  if (options.target.empty()) {
    return absl::InvalidArgumentError("target is empty");
  }
  if (options.tries_max < 1 || options.tries_max > kTriesMax) {
    return absl::InvalidArgumentError("tries_max is not between 1 and 100");
  }
  for (const absl::Status& status :
       {CheckRange("timeout", options.timeout, kTimeoutMin, kTimeoutMax),
        CheckRange("try_timeout", options.try_timeout, kTimeoutMin,
                   kTimeoutMax),
        CheckRange("backoff_first", options.backoff_first, kBackoffMin,
                   kTimeoutMax),
        CheckRange("backoff_max", options.backoff_max, kBackoffMin,
                   kTimeoutMax)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// What this machine would wait for, bounded before anything is sent: the rest
// is for the server to judge.
absl::Status Check(const CallOptions& options, absl::Duration wait) {
  if (options.timeout.has_value() &&
      (*options.timeout <= absl::ZeroDuration() ||
       *options.timeout > kTimeoutMax)) {
    return absl::InvalidArgumentError("timeout is not above 0 and up to 60 s");
  }
  return CheckRange("wait", wait, absl::ZeroDuration(), kWaitMax);
}

absl::Status NotUtf8(const std::string& name) {
  return WithReason(absl::InvalidArgumentError(name + " is not UTF-8"),
                    "MESSAGE_MALFORMED");
}

// Protobuf would send a string that is not UTF-8, and whatever is on the way to
// the server may call it an error of its own, which is worth repeating.
absl::Status CheckText(const google::protobuf::Message& request) {
  const auto& descriptor = *request.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const auto& field = *descriptor.field(i);
    if (field.type() != google::protobuf::FieldDescriptor::TYPE_STRING ||
        field.is_repeated()) {
      continue;
    }
    if (!IsUtf8(request.GetReflection()->GetString(request, &field))) {
      return NotUtf8(field.name());
    }
  }
  return absl::OkStatus();
}

template <typename Request, typename Message>
absl::StatusOr<std::variant<Answer<Message>, Unknown>> CheckAndCall(
    Client::Impl& impl, Client::Impl::Method<Request, Message> method,
    const Request& request, absl::Duration wait, const CallOptions& options) {
  if (absl::Status status = Check(options, wait); !status.ok()) return status;
  if (absl::Status status = CheckText(request); !status.ok()) return status;
  return impl.Call(method, request, wait, options);
}

// A definite error of Complete, Extend or Release: a value if the record did
// not allow it.
template <typename Outcome>
absl::StatusOr<Outcome> RefusalOrError(const absl::Status& status) {
  if (const auto refusal = RefusalOf(status); refusal.has_value()) {
    return Outcome(*refusal);
  }
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  try {
    return std::unique_ptr<Client>(
        new Client(std::make_unique<Impl>(std::move(options))));
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("there is no thread to be had");
  }
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() = default;

absl::StatusOr<BeginOutcome> Client::Begin(const BeginRequest& request,
                                           const CallOptions& options) {
  auto answer = CheckAndCall<v1::BeginRequest, v1::BeginResponse>(
      *impl_, &Impl::Stub::Begin, ToProto(request), request.wait, options);
  if (!answer.ok()) return answer.status();
  if (auto* unknown = std::get_if<Unknown>(&*answer)) return *unknown;
  return FromProto(std::get<Answer<v1::BeginResponse>>(*answer));
}

absl::StatusOr<CompleteOutcome> Client::Complete(const CompleteRequest& request,
                                                 const CallOptions& options) {
  for (const Header& header : request.response.headers) {
    if (!IsUtf8(header.name) || !IsUtf8(header.value))
      return NotUtf8("a header");
  }
  auto answer = CheckAndCall<v1::CompleteRequest, v1::CompleteResponse>(
      *impl_, &Impl::Stub::Complete, ToProto(request), absl::ZeroDuration(),
      options);
  if (!answer.ok()) return RefusalOrError<CompleteOutcome>(answer.status());
  if (auto* unknown = std::get_if<Unknown>(&*answer)) return *unknown;
  return FromProto(std::get<Answer<v1::CompleteResponse>>(*answer).message);
}

absl::StatusOr<ExtendOutcome> Client::Extend(const ExtendRequest& request,
                                             const CallOptions& options) {
  auto answer = CheckAndCall<v1::ExtendRequest, v1::ExtendResponse>(
      *impl_, &Impl::Stub::Extend, ToProto(request), absl::ZeroDuration(),
      options);
  if (!answer.ok()) return RefusalOrError<ExtendOutcome>(answer.status());
  if (auto* unknown = std::get_if<Unknown>(&*answer)) return *unknown;
  return FromProto(std::get<Answer<v1::ExtendResponse>>(*answer));
}

absl::StatusOr<ReleaseOutcome> Client::Release(const ReleaseRequest& request,
                                               const CallOptions& options) {
  auto answer = CheckAndCall<v1::ReleaseRequest, v1::ReleaseResponse>(
      *impl_, &Impl::Stub::Release, ToProto(request), absl::ZeroDuration(),
      options);
  if (!answer.ok()) return RefusalOrError<ReleaseOutcome>(answer.status());
  if (auto* unknown = std::get_if<Unknown>(&*answer)) return *unknown;
  return FromProto(std::get<Answer<v1::ReleaseResponse>>(*answer).message);
}

absl::StatusOr<Record> Client::Lookup(absl::string_view client_id,
                                      absl::string_view key,
                                      const CallOptions& options) {
  v1::LookupRequest request;
  request.set_client_id(std::string(client_id));
  request.set_key(std::string(key));
  auto answer = CheckAndCall<v1::LookupRequest, v1::LookupResponse>(
      *impl_, &Impl::Stub::Lookup, request, absl::ZeroDuration(), options);
  if (!answer.ok()) return answer.status();
  if (auto* unknown = std::get_if<Unknown>(&*answer)) {
    return absl::UnavailableError(unknown->status.message());
  }
  return FromProto(std::get<Answer<v1::LookupResponse>>(*answer).message);
}

}  // namespace dedupe::client
