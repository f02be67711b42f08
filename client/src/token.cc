#include "client/src/token.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/src/pause.h"

namespace dedupe::client {
namespace {

constexpr std::chrono::seconds kReadInterval(1);
// dedupe's have 88; those of a proxy in front of it may be longer. The server
// takes 8 KiB of headers.
constexpr size_t kTokenBytesMax = 4096;
// With the white space around it.
constexpr size_t kFileBytesMax = 2 * kTokenBytesMax;

// A file and what was in it when it was last read. Thread-safe.
class TokenFile {
 public:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}

  std::string Token() {
    std::lock_guard lock(mutex_);
    const auto now = SteadyClock::now();
    if (now >= next_reading_) {
      next_reading_ = now + kReadInterval;
      Read();
    }
    return token_;
  }

 private:
  void Read() {
    // A pipe would keep every call waiting for whoever writes to it.
    std::error_code error;
    if (!std::filesystem::is_regular_file(path_, error)) return;
    std::ifstream file(path_, std::ios::binary);
    std::string content(kFileBytesMax, '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    content.resize(static_cast<size_t>(file.gcount()));
    absl::StripAsciiWhitespace(&content);
    // Whoever replaces it may have emptied it first.
    if (!content.empty()) token_ = std::move(content);
  }

  const std::string path_;
  std::mutex mutex_;
  std::string token_;
  SteadyClock::time_point next_reading_ = SteadyClock::time_point::min();
};

bool CanBeSent(const std::string& token) {
  return token.size() <= kTokenBytesMax &&
         std::all_of(token.begin(), token.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

grpc::Status Unauthenticated(const std::string& message) {
  return {grpc::StatusCode::UNAUTHENTICATED, message};
}

}  // namespace

TokenSource TokenFromFile(std::string path) {
  return [file = std::make_shared<TokenFile>(std::move(path))] {
    return file->Token();
  };
}

grpc::Status AddToken(const TokenSource& source, grpc::ClientContext& context) {
  if (source == nullptr) return grpc::Status::OK;
  std::string token;
  try {
    token = source();
  } catch (...) {
    // On the thread that renews leases it would end the process.
    return Unauthenticated("the token's source has thrown an exception");
  }
  if (token.empty()) return grpc::Status::OK;
  if (!CanBeSent(token)) {
    return Unauthenticated("the token is not 1 to 4096 visible ASCII bytes");
  }
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  return grpc::Status::OK;
}

}  // namespace dedupe::client
