#include "tests/unit/transport/echo_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/transport/listen_address.h"

namespace dedupe::testing {
namespace {

class EchoReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit EchoReactor(const grpc::GenericCallbackServerContext& context) {
    if (context.method() == EchoService::kPeer) peer_ = context.peer();
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (!peer_.empty()) {
      const grpc::Slice slice(peer_);
      message_ = grpc::ByteBuffer(&slice, 1);
    }
    StartWriteAndFinish(&message_, {}, grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
  std::string peer_;
};

}  // namespace

grpc::ServerGenericBidiReactor* EchoService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new EchoReactor(*context);
}

EchoServer::EchoServer(const Options& options) : address_(options.address) {
  acceptor_ =
      *Acceptor::Open({.address = *ListenAddress::Resolve(options.address),
                       .connections_max = options.connections_max});
  if (absl::EndsWith(options.address, ":0")) {
    address_.pop_back();
    absl::StrAppend(&address_, acceptor_->port());
  }
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service_);
  if (options.connection_age_max != absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               static_cast<int>(absl::ToInt64Milliseconds(
                                   options.connection_age_max)));
  }
  acceptor_->AddTo(builder, grpc::InsecureServerCredentials());
  server_ = builder.BuildAndStart();
  acceptor_->Start();
}

EchoServer::~EchoServer() {
  acceptor_->Stop();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

}  // namespace dedupe::testing
