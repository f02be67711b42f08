// The document in which dedupe.access() tells who may touch what.
#ifndef DEDUPE_SERVER_STORE_ACCESS_DOCUMENT_H_
#define DEDUPE_SERVER_STORE_ACCESS_DOCUMENT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/access.h"

namespace dedupe {

// RECORD_DAMAGED if anything in it is not as migration 0012 writes it: half a
// list is none. Fields that this server does not know are passed over,
// and a role that it does not know may do nothing.
absl::StatusOr<AccessList> DecodeAccessDocument(absl::string_view json);

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_ACCESS_DOCUMENT_H_
