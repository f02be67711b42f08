// The document of dedupe.access(): all of it, or nothing.
#include "server/store/access_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/service/reason.h"

namespace dedupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;

Json Document() {
  return {
      {"principals",
       {{{"name", "shop"},
         {"role", "caller"},
         {"client_ids", {"shop/*", "acme"}},
         {"calls_in_flight_max", 1},
         {"calls_per_second_max", nullptr},
         {"live_keys_max", 1'000'000'000'000},
         {"stored_bytes_max", 0}}}},
      {"tokens",
       {{{"id", "0123456789abcdef"},
         {"sha256", std::string(64, 'a')},
         {"principal", "shop"},
         {"expires_us", 1'700'000'000'123'456}}}},
      {"certificate_names", {{{"name", "dns:shop"}, {"principal", "shop"}}}}};
}

absl::StatusOr<AccessList> Decode(const Json& document) {
  return DecodeAccessDocument(document.dump());
}

TEST(AccessDocumentTest, IsReadAsAWhole) {
  const auto list = Decode(Document());
  ASSERT_TRUE(list.ok()) << list.status();
  Principal shop;
  shop.name = "shop";
  shop.role = Role::kCaller;
  shop.client_ids = {"shop/*", "acme"};
  shop.quota = {.calls_in_flight_max = 1,
                .calls_per_second_max = std::nullopt,
                .live_keys_max = 1'000'000'000'000,
                .stored_bytes_max = 0};
  EXPECT_THAT(list->principals, ElementsAre(shop));
  EXPECT_THAT(
      list->tokens,
      ElementsAre(Token{"0123456789abcdef", std::string(32, '\xaa'), "shop",
                        absl::FromUnixMicros(1'700'000'000'123'456)}));
  EXPECT_THAT(list->certificate_names,
              ElementsAre(CertificateName{"dns:shop", "shop"}));
}

TEST(AccessDocumentTest, NullIsNoExpiry) {
  Json document = Document();
  document["tokens"][0]["expires_us"] = nullptr;
  EXPECT_EQ(Decode(document)->tokens[0].expires_at, std::nullopt);
}

TEST(AccessDocumentTest, EmptyListsAreNobody) {
  const auto list = DecodeAccessDocument(
      R"({"principals": [], "tokens": [], "certificate_names": []})");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(*list, AccessList());
}

// A newer schema may tell more.
TEST(AccessDocumentTest, UnknownFieldsArePassedOver) {
  Json document = Document();
  document["networks"] = {1, 2};
  document["principals"][0]["color"] = "red";
  EXPECT_EQ(*Decode(document), *Decode(Document()));
}

TEST(AccessDocumentTest, AnythingElseIsDamaged) {
  const auto expect_damaged = [](const std::string& text) {
    EXPECT_EQ(ReasonOf(DecodeAccessDocument(text).status()),
              Reason::kRecordDamaged)
        << text;
  };
  for (const char* text :
       {"", "{", "[]", "null", "1", "{}", "{\"tokens\":[]}"}) {
    expect_damaged(text);
  }
  for (const char* list : {"principals", "tokens", "certificate_names"}) {
    // Every field missing, and every field of another type.
    const Json good = Document();
    for (const auto& [field, value] : good[list][0].items()) {
      Json without = Document();
      without[list][0].erase(field);
      expect_damaged(without.dump());
      Json other = Document();
      other[list][0][field] = Json::object();
      expect_damaged(other.dump());
    }
    Json no_object = Document();
    no_object[list].push_back("x");
    expect_damaged(no_object.dump());
    Json no_array = Document();
    no_array[list] = Document()[list][0];
    expect_damaged(no_array.dump());
  }
}

TEST(AccessDocumentTest, ValuesAreChecked) {
  const auto expect_damaged = [](const char* list, const char* field,
                                 const Json& value) {
    Json document = Document();
    document[list][0][field] = value;
    EXPECT_EQ(ReasonOf(Decode(document).status()), Reason::kRecordDamaged)
        << field << ": " << value;
  };
  expect_damaged("principals", "role", nullptr);
  expect_damaged("principals", "client_ids", {"a", 1});
  expect_damaged("principals", "live_keys_max", 1.5);
  expect_damaged("principals", "live_keys_max", "1");
  expect_damaged("tokens", "sha256", std::string(63, 'a'));
  expect_damaged("tokens", "sha256", std::string(64, 'g'));
  expect_damaged("tokens", "expires_us", "soon");
}

}  // namespace
}  // namespace dedupe
