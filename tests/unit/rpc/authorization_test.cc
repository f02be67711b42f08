// The table of who may call what, walked over every method that there is.
#include "server/rpc/authorization.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "dedupe/v1/dedupe.pb.h"

namespace dedupe {
namespace {

using Methods = std::set<std::string>;

// What each role may do, said a second time.
const std::map<Role, Methods> kExpected = {
    {Role::kCaller, {"Begin", "Complete", "Extend", "Release", "Lookup"}},
    {Role::kReader, {"Lookup"}},
    {Role::kAdmin, {"Begin", "Complete", "Extend", "Release", "Lookup"}},
};

const google::protobuf::FileDescriptor& File() {
  return *v1::BeginRequest::descriptor()->file();
}

TEST(AuthorizationTest, EachRoleMayJustWhatIsExpected) {
  for (const auto& [role, expected] : kExpected) {
    Methods allowed;
    for (int i = 0; i < File().service_count(); ++i) {
      const auto& service = *File().service(i);
      for (int j = 0; j < service.method_count(); ++j) {
        const std::string& method = service.method(j)->name();
        if (IsAllowed(service.full_name(), method, role)) {
          allowed.insert(method);
        }
      }
    }
    EXPECT_EQ(allowed, expected) << static_cast<int>(role);
  }
}

TEST(AuthorizationTest, EveryMethodIsAllowedToSomebody) {
  for (int i = 0; i < File().service_count(); ++i) {
    const auto& service = *File().service(i);
    for (int j = 0; j < service.method_count(); ++j) {
      EXPECT_TRUE(IsAllowed(service.full_name(), service.method(j)->name(),
                            Role::kAdmin))
          << service.method(j)->full_name()
          << " is missing in the table of authorization.cc";
    }
  }
}

TEST(AuthorizationTest, WhatTheTableDoesNotNameIsAllowedToNobody) {
  for (const Role role : {Role::kCaller, Role::kReader, Role::kAdmin}) {
    EXPECT_FALSE(IsAllowed("dedupe.v1.DedupeService", "Erase", role));
    EXPECT_FALSE(IsAllowed("dedupe.v1.DedupeService", "begin", role));
    EXPECT_FALSE(IsAllowed("dedupe.v1.DedupeService", "", role));
    EXPECT_FALSE(IsAllowed("dedupe.v1.OtherService", "Lookup", role));
    EXPECT_FALSE(IsAllowed("", "Lookup", role));
  }
}

TEST(AuthorizationTest, UnknownRoleMayNothing) {
  EXPECT_FALSE(IsAllowed("dedupe.v1.DedupeService", "Lookup", Role::kUnknown));
}

}  // namespace
}  // namespace dedupe
