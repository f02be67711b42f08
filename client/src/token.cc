#include "client/src/token.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/src/pause.h"

namespace dedupe::client {
namespace {

constexpr std::chrono::seconds kReadInterval(1);

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
    std::ifstream file(path_);
    std::stringstream content;
    content << file.rdbuf();
    std::string text(absl::StripAsciiWhitespace(content.str()));
    // Whoever replaces it may have emptied it first.
    if (!text.empty()) token_ = std::move(text);
  }

  const std::string path_;
  std::mutex mutex_;
  std::string token_;
  SteadyClock::time_point next_reading_ = SteadyClock::time_point::min();
};

bool CanBeSent(const std::string& token) {
  return std::all_of(token.begin(), token.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

}  // namespace

TokenSource TokenFromFile(std::string path) {
  return [file = std::make_shared<TokenFile>(std::move(path))] {
    return file->Token();
  };
}

grpc::Status AddToken(const TokenSource& source, grpc::ClientContext& context) {
  if (source == nullptr) return grpc::Status::OK;
  const std::string token = source();
  if (token.empty()) return grpc::Status::OK;
  if (!CanBeSent(token)) {
    return {grpc::StatusCode::UNAUTHENTICATED,
            "the token holds characters that no token has"};
  }
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  return grpc::Status::OK;
}

}  // namespace dedupe::client
