// The migrations that this binary was built with, in order of version. Defined
// in a source that the build writes from migrations/*.up.sql.
#ifndef DEDUPE_SERVER_STORE_EMBEDDED_MIGRATIONS_H_
#define DEDUPE_SERVER_STORE_EMBEDDED_MIGRATIONS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dedupe {

struct EmbeddedMigration {
  int version;
  // Such as "0002_create_record".
  absl::string_view name;
  absl::string_view sql;
  // Of sql, in hexadecimal.
  absl::string_view sha256;
};

absl::Span<const EmbeddedMigration> EmbeddedMigrations();

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_EMBEDDED_MIGRATIONS_H_
