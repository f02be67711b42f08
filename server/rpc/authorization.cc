#include "server/rpc/authorization.h"

#include <algorithm>
#include <initializer_list>

namespace dedupe {
namespace {

struct Rule {
  absl::string_view service;
  absl::string_view method;
  std::initializer_list<Role> roles;
};

constexpr absl::string_view kDedupeService = "dedupe.v1.DedupeService";

const Rule kRules[] = {
    {kDedupeService, "Begin", {Role::kCaller, Role::kAdmin}},
    {kDedupeService, "Complete", {Role::kCaller, Role::kAdmin}},
    {kDedupeService, "Extend", {Role::kCaller, Role::kAdmin}},
    {kDedupeService, "Release", {Role::kCaller, Role::kAdmin}},
    {kDedupeService, "Lookup", {Role::kCaller, Role::kReader, Role::kAdmin}},
};

}  // namespace

bool IsAllowed(absl::string_view service, absl::string_view method, Role role) {
  return std::any_of(
      std::begin(kRules), std::end(kRules), [&](const Rule& rule) {
        return rule.service == service && rule.method == method &&
               std::find(rule.roles.begin(), rule.roles.end(), role) !=
                   rule.roles.end();
      });
}

}  // namespace dedupe
