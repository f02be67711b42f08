#include "server/store/postgres_store.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/service/reason.h"
#include "server/store/decode.h"
#include "server/store/sql_array.h"
#include "server/store/statements.h"

namespace dedupe {
namespace {

using Jobs = std::vector<JobPtr>;
using BatchResult = Batcher::BatchResult;

// Statements grow with their bytes, in the server and in the database.
constexpr size_t kBatchBytesMax = 4 * 1024 * 1024;
// What a job costs beside its command's strings.
constexpr size_t kJobBytes = 512;

void AppendDuration(SqlArray& array, std::optional<absl::Duration> duration) {
  if (duration.has_value()) {
    array.AppendInteger(absl::ToInt64Microseconds(*duration));
  } else {
    array.AppendNull();
  }
}

// One array parameter: what `append` writes for each job's command.
template <typename JobType, typename AppendOne>
std::string Column(const Jobs& jobs, AppendOne append) {
  SqlArray array;
  for (const JobPtr& job : jobs) {
    append(array, static_cast<const JobType&>(*job).command());
  }
  return std::move(array).Take();
}

std::string ClientIds(const Jobs& jobs) {
  SqlArray array;
  for (const JobPtr& job : jobs) array.AppendText(job->id.client_id);
  return std::move(array).Take();
}

std::string Keys(const Jobs& jobs) {
  SqlArray array;
  for (const JobPtr& job : jobs) array.AppendText(job->id.key);
  return std::move(array).Take();
}

template <typename JobType>
std::string AttemptIds(const Jobs& jobs) {
  return Column<JobType>(jobs, [](SqlArray& array, const auto& command) {
    array.AppendText(command.holder.attempt_id);
  });
}

template <typename JobType>
std::string Fences(const Jobs& jobs) {
  return Column<JobType>(jobs, [](SqlArray& array, const auto& command) {
    array.AppendInteger(command.holder.fence);
  });
}

JobPtr FindJob(const Jobs& jobs, const RecordId& id) {
  const auto found =
      std::lower_bound(jobs.begin(), jobs.end(), id,
                       [](const JobPtr& job, const RecordId& wanted) {
                         return job->id < wanted;
                       });
  return found != jobs.end() && (*found)->id == id ? *found : nullptr;
}

// A refusal says that nothing changed. Of a job that was sent before, with the
// answer lost, that is not known: the first sending may be what it was refused
// for (a Release, say, after which another attempt began).
template <typename Answer>
absl::StatusOr<Answer> Honest(const Job& job, absl::StatusOr<Answer> answer) {
  if (job.in_doubt && (absl::IsFailedPrecondition(answer.status()) ||
                       absl::IsNotFound(answer.status()))) {
    return Refusal(Reason::kStoreDown);
  }
  return answer;
}

// Runs the statement and hands each job its row.
template <typename JobType>
BatchResult RunKeyed(
    Connection& connection, const Jobs& jobs, const char* statement,
    const SqlParameters& parameters,
    absl::StatusOr<typename JobType::Answer> (*decode)(const pqxx::row&)) {
  auto rows = connection.Execute(statement, parameters);
  if (!rows.ok()) return {rows.status(), {}};
  BatchResult result;
  size_t settled = 0;
  for (const pqxx::row& row : *rows) {
    const JobPtr job = FindJob(jobs, DecodeId(row));
    if (job == nullptr) continue;
    ++settled;
    if (IsRetry(row)) {
      result.again.push_back(job);
    } else {
      static_cast<JobType&>(*job).Finish(Honest(*job, decode(row)));
    }
  }
  // The function gives one row for each item; anything else is its fault.
  if (settled == jobs.size()) return result;
  for (const JobPtr& job : jobs) {
    if (std::find(result.again.begin(), result.again.end(), job) ==
        result.again.end()) {
      job->Refuse(Refusal(Reason::kStoreBroken));
    }
  }
  return result;
}

// The same for statements about no record, whose jobs are run one by one.
template <typename JobType>
BatchResult RunSingle(
    Connection& connection, const JobPtr& job, const char* statement,
    const SqlParameters& parameters,
    absl::StatusOr<typename JobType::Answer> (*decode)(const pqxx::row&)) {
  auto rows = connection.Execute(statement, parameters);
  if (!rows.ok()) return {rows.status(), {}};
  static_cast<JobType&>(*job).Finish(decode((*rows)[0]));
  return {};
}

BatchResult RunBegin(Connection& connection, const Jobs& jobs) {
  const auto column = [&jobs](auto append) {
    return Column<BeginJob>(jobs, append);
  };
  return RunKeyed<BeginJob>(
      connection, jobs, kBegin,
      {ClientIds(jobs), Keys(jobs),
       column([](SqlArray& array, const BeginCommand& command) {
         array.AppendText(command.operation);
       }),
       column([](SqlArray& array, const BeginCommand& command) {
         array.AppendBytes(command.fingerprint);
       }),
       column([](SqlArray& array, const BeginCommand& command) {
         array.AppendText(command.attempt_id);
       }),
       column([](SqlArray& array, const BeginCommand& command) {
         AppendDuration(array, command.lease);
       }),
       column([](SqlArray& array, const BeginCommand& command) {
         AppendDuration(array, command.ttl);
       }),
       column([](SqlArray& array, const BeginCommand& command) {
         array.AppendText(command.on_lease_expiry == OnLeaseExpiry::kHold
                              ? "hold"
                              : "takeover");
       })},
      DecodeBegin);
}

BatchResult RunComplete(Connection& connection, const Jobs& jobs) {
  const auto column = [&jobs](auto append) {
    return Column<CompleteJob>(jobs, append);
  };
  return RunKeyed<CompleteJob>(
      connection, jobs, kComplete,
      {ClientIds(jobs), Keys(jobs), AttemptIds<CompleteJob>(jobs),
       Fences<CompleteJob>(jobs),
       column([](SqlArray& array, const CompleteCommand& command) {
         array.AppendInteger(command.response.code);
       }),
       column([](SqlArray& array, const CompleteCommand& command) {
         if (command.response.headers.empty()) {
           array.AppendNull();
         } else {
           array.AppendText(EncodeHeaders(command.response.headers));
         }
       }),
       column([](SqlArray& array, const CompleteCommand& command) {
         if (command.response.body_omitted) {
           array.AppendNull();
         } else {
           array.AppendBytes(command.response.body);
         }
       })},
      DecodeComplete);
}

BatchResult RunExtend(Connection& connection, const Jobs& jobs) {
  return RunKeyed<ExtendJob>(
      connection, jobs, kExtend,
      {ClientIds(jobs), Keys(jobs), AttemptIds<ExtendJob>(jobs),
       Fences<ExtendJob>(jobs),
       Column<ExtendJob>(jobs,
                         [](SqlArray& array, const ExtendCommand& command) {
                           AppendDuration(array, command.lease);
                         }),
       Column<ExtendJob>(jobs,
                         [](SqlArray& array, const ExtendCommand& command) {
                           if (command.checkpoint.empty()) {
                             array.AppendNull();
                           } else {
                             array.AppendBytes(command.checkpoint);
                           }
                         })},
      DecodeExtend);
}

BatchResult RunRelease(Connection& connection, const Jobs& jobs) {
  return RunKeyed<ReleaseJob>(
      connection, jobs, kRelease,
      {ClientIds(jobs), Keys(jobs), AttemptIds<ReleaseJob>(jobs),
       Fences<ReleaseJob>(jobs),
       Column<ReleaseJob>(jobs,
                          [](SqlArray& array, const ReleaseCommand& command) {
                            array.AppendBoolean(command.forget_fingerprint);
                          })},
      DecodeRelease);
}

BatchResult RunReap(Connection& connection, const JobPtr& job) {
  const ReapCommand& command = static_cast<const ReapJob&>(*job).command();
  // No time at all is past every clock's reading.
  const absl::Time latest = command.latest.value_or(absl::FromUnixSeconds(
      int64_t{253'402'300'799}));  // The last second of the year 9999.
  return RunSingle<ReapJob>(connection, job, kReap,
                            {absl::StrCat(command.row_limit),
                             absl::StrCat(absl::ToUnixMicros(latest))},
                            DecodeReap);
}

BatchResult RunAccess(Connection& connection, const JobPtr& job) {
  const AccessCommand& command = static_cast<const AccessJob&>(*job).command();
  SqlArray used;
  for (const std::string& id : command.used_token_ids) used.AppendText(id);
  return RunSingle<AccessJob>(
      connection, job, kAccess,
      {absl::StrCat(command.known_version), std::move(used).Take()},
      DecodeAccess);
}

BatchResult RunUsage(Connection& connection, const JobPtr& job) {
  const UsageCommand& command = static_cast<const UsageJob&>(*job).command();
  return RunSingle<UsageJob>(
      connection, job, kUsage,
      {command.pattern, command.after_client_id, command.after_key,
       absl::StrCat(command.row_limit)},
      DecodeUsage);
}

// Jobs about no record share one id, so they come alone.
BatchResult RunBatch(Connection& connection, const Jobs& jobs) {
  switch (jobs.front()->verb) {
    case Verb::kBegin:
      return RunBegin(connection, jobs);
    case Verb::kComplete:
      return RunComplete(connection, jobs);
    case Verb::kExtend:
      return RunExtend(connection, jobs);
    case Verb::kRelease:
      return RunRelease(connection, jobs);
    case Verb::kLookup:
      return RunKeyed<LookupJob>(connection, jobs, kLookup,
                                 {ClientIds(jobs), Keys(jobs), "t"},
                                 DecodeLookup);
    case Verb::kWatch:
      return RunKeyed<WatchJob>(connection, jobs, kLookup,
                                {ClientIds(jobs), Keys(jobs), "f"},
                                DecodeLookup);
    case Verb::kReap:
      return RunReap(connection, jobs.front());
    case Verb::kProbe:
      return RunSingle<ProbeJob>(connection, jobs.front(), kProbe, {},
                                 DecodeProbe);
    case Verb::kAccess:
      return RunAccess(connection, jobs.front());
    case Verb::kUsage:
      return RunUsage(connection, jobs.front());
  }
  return {absl::InternalError("no such verb"), {}};
}

size_t BytesOf(const Response& response) {
  size_t bytes = response.body.size();
  for (const Header& header : response.headers) {
    bytes += header.name.size() + header.value.size();
  }
  return bytes;
}

// These are about no record: all of each have one id, the empty one.
RecordId IdOf(const ReapCommand&) { return {}; }
RecordId IdOf(const ProbeCommand&) { return {}; }
RecordId IdOf(const AccessCommand&) { return {}; }
RecordId IdOf(const UsageCommand&) { return {}; }
template <typename Command>
RecordId IdOf(const Command& command) {
  return command.id;
}

template <typename JobType>
void Submit(Batcher& batcher, size_t payload_bytes,
            typename JobType::Command command, CallScope scope,
            Callback<typename JobType::Answer> done) {
  RecordId id = IdOf(command);
  const size_t bytes =
      kJobBytes + id.client_id.size() + id.key.size() + payload_bytes;
  batcher.Submit(std::make_shared<JobType>(std::move(id), std::move(command),
                                           std::move(scope), bytes,
                                           std::move(done)));
}

}  // namespace

PostgresStore::PostgresStore(PostgresStoreOptions options)
    : batcher_({.database_url = std::move(options.database_url),
                .connections = options.connections,
                .queue = {.jobs_max = options.queue_calls_max,
                          .bytes_max = options.queue_bytes_max,
                          .batch_jobs_max = options.batch_calls_max,
                          .batch_bytes_max = kBatchBytesMax},
                .statement_timeout = options.statement_timeout},
               RunBatch) {}

void PostgresStore::Begin(BeginCommand command, CallScope scope,
                          Callback<BeginAnswer> done) {
  Submit<BeginJob>(batcher_, 0, std::move(command), std::move(scope),
                   std::move(done));
}

void PostgresStore::Complete(CompleteCommand command, CallScope scope,
                             Callback<CompleteAnswer> done) {
  const size_t bytes = BytesOf(command.response);
  Submit<CompleteJob>(batcher_, bytes, std::move(command), std::move(scope),
                      std::move(done));
}

void PostgresStore::Extend(ExtendCommand command, CallScope scope,
                           Callback<ExtendAnswer> done) {
  const size_t bytes = command.checkpoint.size();
  Submit<ExtendJob>(batcher_, bytes, std::move(command), std::move(scope),
                    std::move(done));
}

void PostgresStore::Release(ReleaseCommand command, CallScope scope,
                            Callback<ReleaseAnswer> done) {
  Submit<ReleaseJob>(batcher_, 0, std::move(command), std::move(scope),
                     std::move(done));
}

void PostgresStore::Lookup(LookupCommand command, CallScope scope,
                           Callback<LookupAnswer> done) {
  Submit<LookupJob>(batcher_, 0, std::move(command), std::move(scope),
                    std::move(done));
}

void PostgresStore::Watch(WatchCommand command, CallScope scope,
                          Callback<LookupAnswer> done) {
  Submit<WatchJob>(batcher_, 0, std::move(command), std::move(scope),
                   std::move(done));
}

void PostgresStore::Reap(ReapCommand command, CallScope scope,
                         Callback<ReapAnswer> done) {
  Submit<ReapJob>(batcher_, 0, command, std::move(scope), std::move(done));
}

void PostgresStore::Probe(ProbeCommand command, CallScope scope,
                          Callback<ProbeAnswer> done) {
  Submit<ProbeJob>(batcher_, 0, command, std::move(scope), std::move(done));
}

void PostgresStore::LoadAccess(AccessCommand command, CallScope scope,
                               Callback<AccessAnswer> done) {
  size_t bytes = 0;
  for (const std::string& id : command.used_token_ids) bytes += id.size();
  Submit<AccessJob>(batcher_, bytes, std::move(command), std::move(scope),
                    std::move(done));
}

void PostgresStore::MeasureUsage(UsageCommand command, CallScope scope,
                                 Callback<UsageAnswer> done) {
  const size_t bytes = command.pattern.size() + command.after_client_id.size() +
                       command.after_key.size();
  Submit<UsageJob>(batcher_, bytes, std::move(command), std::move(scope),
                   std::move(done));
}

}  // namespace dedupe
