// Builds, starts and stops the parts of the server.
#ifndef DEDUPE_SERVER_APP_APP_H_
#define DEDUPE_SERVER_APP_APP_H_

#include "absl/status/status.h"
#include "server/app/config.h"

namespace dedupe {

// Of this build, such as "0.1.0".
const char* Version();

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it will start, so
// that Serve() can wait for them, ignores SIGPIPE, and keeps gRPC from what it
// is not to do. First thing in main().
void PrepareProcess();

// Serves until SIGTERM or SIGINT, then drains: health says NOT_SERVING for
// drain_delay, then new calls are refused and those in flight have drain_grace
// to finish. A further signal ends the one or the other. OK: drained.
// FAILED_PRECONDITION: the database's schema does not fit; the message says
// what to run. UNAVAILABLE: the address is not to be had. A database that is
// away is waited for.
absl::Status Serve(const Config& config);

// Brings the database to the schema of this binary, and says so in the log.
absl::Status MigrateDatabase(const Config& config);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_APP_H_
