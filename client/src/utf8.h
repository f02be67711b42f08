#ifndef DEDUPE_CLIENT_SRC_UTF8_H_
#define DEDUPE_CLIENT_SRC_UTF8_H_

#include "absl/strings/string_view.h"

namespace dedupe::client {

// Well-formed UTF-8: no overlong forms, no surrogates.
bool IsUtf8(absl::string_view text);

}  // namespace dedupe::client

#endif  // DEDUPE_CLIENT_SRC_UTF8_H_
