// What an administrator does, by the commands of the binary under test.
#ifndef DEDUPE_TESTS_SUPPORT_ADMINISTRATOR_H_
#define DEDUPE_TESTS_SUPPORT_ADMINISTRATOR_H_

#include <string>
#include <utility>
#include <vector>

#include "tests/support/process.h"

namespace dedupe::testing {

class Administrator {
 public:
  // url: of the database, as whoever may administer it.
  explicit Administrator(std::string url) : url_(std::move(url)) {}

  // Any command: `principal list`.
  ProcessResult Run(const std::vector<std::string>& words) const;

  // These must succeed, or end the test program with what was printed.
  // options: such as "--role=caller", "--client-ids=shop/*".
  void SetPrincipal(const std::string& name,
                    const std::vector<std::string>& options) const;
  std::string CreateToken(const std::string& principal,
                          const std::vector<std::string>& options = {}) const;
  void RevokeToken(const std::string& token) const;

 private:
  std::string Must(const std::vector<std::string>& words) const;

  std::string url_;
};

// What is before the dot, without the prefix.
std::string IdOfToken(const std::string& token);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_SUPPORT_ADMINISTRATOR_H_
