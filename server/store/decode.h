// Rows of the answers, as statements.h selects them, become what the rules
// speak of. An outcome that is no answer becomes a refusal; one that this
// server does not know, from a newer schema, becomes RECORD_DAMAGED.
#ifndef DEDUPE_SERVER_STORE_DECODE_H_
#define DEDUPE_SERVER_STORE_DECODE_H_

#include <pqxx/pqxx>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/store.h"

namespace dedupe {

// Of every row that is about one record.
RecordId DecodeId(const pqxx::row& row);
// The function gave no decision: ask again.
bool IsRetry(const pqxx::row& row);

absl::StatusOr<BeginAnswer> DecodeBegin(const pqxx::row& row);
absl::StatusOr<CompleteAnswer> DecodeComplete(const pqxx::row& row);
absl::StatusOr<ExtendAnswer> DecodeExtend(const pqxx::row& row);
absl::StatusOr<ReleaseAnswer> DecodeRelease(const pqxx::row& row);
absl::StatusOr<LookupAnswer> DecodeLookup(const pqxx::row& row);
absl::StatusOr<ReapAnswer> DecodeReap(const pqxx::row& row);
absl::StatusOr<ProbeAnswer> DecodeProbe(const pqxx::row& row);
absl::StatusOr<AccessAnswer> DecodeAccess(const pqxx::row& row);
absl::StatusOr<UsageAnswer> DecodeUsage(const pqxx::row& row);

// Headers as the record keeps them: a JSON array of [name, value].
std::string EncodeHeaders(const std::vector<Header>& headers);
// RECORD_DAMAGED if it is anything else.
absl::StatusOr<std::vector<Header>> DecodeHeaders(absl::string_view json);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_DECODE_H_
