// A database of its own with principals in it, and the two who work on it: an
// administrator, and a server.
#ifndef DEDUPE_TESTS_STORE_ACCESS_DATABASE_H_
#define DEDUPE_TESTS_STORE_ACCESS_DATABASE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/service/access.h"
#include "server/service/token.h"
#include "server/store/access_admin.h"
#include "server/store/postgres_store.h"
#include "tests/store/blocking_store.h"
#include "tests/store/session.h"
#include "tests/support/postgres_cluster.h"

namespace dedupe::testing {

inline Principal MakePrincipal(std::string name) {
  Principal principal;
  principal.name = std::move(name);
  principal.role = Role::kCaller;
  principal.client_ids = {"shop/*"};
  return principal;
}

// The number makes the id, and a digest that is nobody's.
inline MintedToken MakeToken(int number) {
  MintedToken token;
  token.id = absl::StrFormat("%016x", number);
  token.sha256 = std::string(32, static_cast<char>(number));
  return token;
}

class AccessDatabase : public ::testing::Test {
 protected:
  AccessDatabase()
      : database_(PostgresCluster::Shared().CreateMigratedDatabase()),
        url_(PostgresCluster::Shared().Url(database_)),
        session_(url_),
        store_({.database_url =
                    PostgresCluster::Shared().Url(database_, "dedupe_server")}),
        calls_(store_),
        admin_(OpenAdmin(url_)) {}

  static std::unique_ptr<AccessAdmin> OpenAdmin(const std::string& url) {
    auto admin = AccessAdmin::Open(url);
    EXPECT_TRUE(admin.ok()) << admin.status();
    return *std::move(admin);
  }

  void Put(const Principal& principal,
           const std::vector<std::string>& certificate_names = {}) {
    const auto outcome = admin_->PutPrincipal(principal, certificate_names);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
  }

  void Create(const std::string& principal, int number) {
    const auto created =
        admin_->CreateToken(principal, MakeToken(number), std::nullopt);
    ASSERT_TRUE(created.ok()) << created.status();
  }

  AccessAnswer Load(AccessCommand command = {}) {
    const auto answer = calls_.LoadAccess(std::move(command));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : AccessAnswer();
  }

  // The whole list, of which there must be one.
  AccessList List() {
    const AccessAnswer answer = Load();
    EXPECT_TRUE(answer.list.has_value());
    return answer.list.value_or(AccessList());
  }

  int64_t Version() { return Load().version; }

  const std::string database_;
  const std::string url_;
  Session session_;
  PostgresStore store_;
  BlockingStore calls_;
  const std::unique_ptr<AccessAdmin> admin_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_STORE_ACCESS_DATABASE_H_
