// Everything between the network and the service: the address, TLS, who is let
// in, and how much at a time.
#ifndef DEDUPE_SERVER_APP_ENTRANCE_H_
#define DEDUPE_SERVER_APP_ENTRANCE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/app/config.h"
#include "server/app/served_tls.h"
#include "server/rpc/authenticator.h"
#include "server/rpc/call_ledger.h"
#include "server/rpc/dedupe_rpc.h"
#include "server/service/access_watch.h"
#include "server/service/dedupe_service.h"
#include "server/service/store.h"
#include "server/service/usage_watch.h"
#include "server/transport/acceptor.h"
#include "server/transport/listen_address.h"

namespace dedupe {

class Entrance {
 public:
  // Binds the address and reads the certificate; nobody is heard yet. The store
  // and the service must outlive it. INVALID_ARGUMENT: no address.
  // FAILED_PRECONDITION: the network could read what is said, or the
  // certificate is not fit. UNAVAILABLE: the address is not to be had. Each
  // message says what to do.
  static absl::StatusOr<std::unique_ptr<Entrance>> Open(const Config& config,
                                                        Store& store,
                                                        DedupeService& service);
  ~Entrance();

  // Once.
  void Start();
  // Of the whole server; after Start().
  grpc::Server& server() { return *server_; }
  // OK: whoever calls can be told apart. STORE_DOWN.
  absl::Status AccessStatus() const;
  // Looks at the certificate files now.
  void Reload();

  // From now on every call is refused with DRAINING.
  void Drain() { rpc_.Drain(); }
  int calls_in_flight() const { return rpc_.calls_in_flight(); }
  // No new connections; those that are open stay until the destructor. Nothing
  // is asked of the store any more but by calls in flight.
  void StopAccepting();

  // Only this machine can connect.
  bool is_local() const { return is_local_; }
  bool has_tls() const { return tls_ != nullptr; }
  bool asks_for_credentials() const { return access_.has_value(); }
  int connections_max() const { return connections_max_; }

 private:
  // The list of principals, and whoever keeps it and its counts current.
  struct Access {
    explicit Access(Store& store);

    AccessWatch watch;
    UsageWatch usage;
  };

  Entrance(const Config& config, const ListenAddress& address,
           int connections_max, std::unique_ptr<ServedTls> tls,
           std::unique_ptr<Acceptor> acceptor, Store& store,
           DedupeService& service);

  static Authenticator MakeAuthenticator(const std::optional<Access>& access,
                                         ServedTls* tls);

  const Config config_;
  const bool is_local_;
  const int connections_max_;
  const std::unique_ptr<ServedTls> tls_;
  const std::unique_ptr<Acceptor> acceptor_;
  std::optional<Access> access_;
  const Authenticator authenticator_;
  CallLedger ledger_;
  DedupeRpc rpc_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_ENTRANCE_H_
