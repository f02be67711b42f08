#include "client/src/utf8.h"

#include <nlohmann/json.hpp>
#include <string>

namespace dedupe::client {

bool IsUtf8(absl::string_view text) {
  try {
    nlohmann::json(std::string(text)).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace dedupe::client
