#include "server/app/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/rpc/health.h"
#include "server/rpc/other_calls.h"
#include "server/service/limits.h"
#include "server/telemetry/log.h"

namespace dedupe {
namespace {

// gRPC's reflection library adds itself to every server of a program that links
// it, so it has to be taken out.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) {
      return plugin->name() == "proto_server_reflection";
    });
  }
};

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

// Why each is what it is stands at its constant, in limits.h.
void BoundMessages(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetMaxSendMessageSize(kMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytesMax);
  // gRPC 1.51 bounds a message before it is decompressed, not after: nothing is
  // decompressed, and what is compressed is a malformed message. To disable the
  // algorithms would answer UNIMPLEMENTED beside the handler, not instead of
  // it: a plain message that merely names one would be refused and take effect.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
}

void BoundConnections(const Config& config, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kConnectionStreamsMax);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Milliseconds(kHandshakeTimeMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Milliseconds(kConnectionIdleMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             Milliseconds(config.connection_age_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Milliseconds(config.connection_age_grace));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             Milliseconds(kKeepaliveInterval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Milliseconds(kPingIntervalMin));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kPingStrikesMax);
  // A surface that nobody here looks at.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  grpc::ResourceQuota quota("dedupe");
  quota.Resize(kReadBytesMax);
  builder.SetResourceQuota(quota);
}

}  // namespace

std::unique_ptr<grpc::Server> BuildServer(
    const Config& config, Acceptor& acceptor,
    std::shared_ptr<grpc::ServerCredentials> credentials,
    grpc::Service& service, CallLedger& ledger) {
  Health::Enable();
  grpc::ServerBuilder builder;
  if (config.reflection) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  } else {
    builder.SetOption(std::make_unique<WithoutReflection>());
  }
  builder.RegisterService(&service);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      factories;
  factories.push_back(std::make_unique<OtherCalls>(ledger));
  builder.experimental().SetInterceptorCreators(std::move(factories));
  BoundMessages(builder);
  BoundConnections(config, builder);
  acceptor.AddTo(builder, std::move(credentials));
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    // No address is opened here, and credentials were judged before.
    Log(Severity::kError, "grpc_server_not_built");
    std::abort();
  }
  return server;
}

}  // namespace dedupe
