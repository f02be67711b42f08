// The one catch: libpqxx's exceptions and SQLSTATEs become absl::Status.
#ifndef DEDUPE_SERVER_STORE_POSTGRES_ERROR_H_
#define DEDUPE_SERVER_STORE_POSTGRES_ERROR_H_

#include <exception>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dedupe {

// What went wrong decides what to do next, so each code is one thing to do:
//
//   UNAVAILABLE         The connection is lost, or is one to a server that
//                       cannot write. Whether the statement took effect is
//                       unknown. Throw the connection away and repeat.
//   ABORTED             Another transaction stood in the way (a lock, a
//                       deadlock, a serialization failure). Rolled back: repeat
//                       it, alone if it was many.
//   RESOURCE_EXHAUSTED  The database has no room. Rolled back.
//   INTERNAL            The schema or the rights are not as they should be.
//                       Rolled back; a repetition will not help.
//   INVALID_ARGUMENT    The database refused the values. Rolled back.
//
// The message is for the log: SQLSTATE and the first line of the error, never
// its details, which quote whole rows.
absl::Status CatchPostgresError(absl::FunctionRef<void()> call);

// The row above of an SQLSTATE.
absl::StatusCode CodeOfSqlstate(absl::string_view sqlstate);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_POSTGRES_ERROR_H_
