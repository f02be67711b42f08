// Store over PostgreSQL: arrays out, rows in, by way of the batcher.
#ifndef DEDUPE_SERVER_STORE_POSTGRES_STORE_H_
#define DEDUPE_SERVER_STORE_POSTGRES_STORE_H_

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "server/service/store.h"
#include "server/store/batcher.h"

namespace dedupe {

struct PostgresStoreOptions {
  std::string database_url;
  int connections = 4;
  size_t batch_calls_max = 128;
  size_t queue_calls_max = 10'000;
  size_t queue_bytes_max = 64 * 1024 * 1024;
  absl::Duration statement_timeout = absl::Seconds(5);
};

class PostgresStore final : public Store {
 public:
  // Connects in the background; calls wait for it, and for the database when it
  // is away, for up to 3 s.
  explicit PostgresStore(PostgresStoreOptions options);

  // Answers what is still open with DRAINING. Idempotent; the destructor's too.
  void Stop() { batcher_.Stop(); }

  void Begin(BeginCommand command, CallScope scope,
             Callback<BeginAnswer> done) override;
  void Complete(CompleteCommand command, CallScope scope,
                Callback<CompleteAnswer> done) override;
  void Extend(ExtendCommand command, CallScope scope,
              Callback<ExtendAnswer> done) override;
  void Release(ReleaseCommand command, CallScope scope,
               Callback<ReleaseAnswer> done) override;
  void Lookup(LookupCommand command, CallScope scope,
              Callback<LookupAnswer> done) override;
  void Watch(WatchCommand command, CallScope scope,
             Callback<LookupAnswer> done) override;
  void Reap(ReapCommand command, CallScope scope,
            Callback<ReapAnswer> done) override;
  void Probe(ProbeCommand command, CallScope scope,
             Callback<ProbeAnswer> done) override;
  void LoadAccess(AccessCommand command, CallScope scope,
                  Callback<AccessAnswer> done) override;
  void MeasureUsage(UsageCommand command, CallScope scope,
                    Callback<UsageAnswer> done) override;

 private:
  Batcher batcher_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_POSTGRES_STORE_H_
