#include "src/report/json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "rapidcheck/gtest.h"

namespace stepcast::report {
namespace {

TEST(JsonTest, PairsThatBeginWithAStringAreAnObject) {
  EXPECT_EQ((Json{{"b", 1}, {"a", {{"x", nullptr}}}}).dump(), R"({"b":1,"a":{"x":null}})");
  EXPECT_EQ((Json{{"b", 1, 2}, {"a", 2}}).dump(), R"([["b",1,2],["a",2]])");
  EXPECT_EQ((Json{1, "b", true}).dump(), R"([1,"b",true])");
  EXPECT_EQ(Json::array({"b", 1}).dump(), R"(["b",1])");
  EXPECT_EQ((Json{{"empty", Json::array()}, {"none", Json::object()}}).dump(),
            R"({"empty":[],"none":{}})");
}

TEST(JsonTest, ValuesKeepTheirKind) {
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).dump(), "18446744073709551615");
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(Json(2.0).dump(), "2.0");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(false).dump(), "false");
  EXPECT_EQ(Json().dump(), "null");
  EXPECT_EQ(Json(std::vector<std::string>{"a", "\"\n"}).dump(), R"(["a","\"\n"])");
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xEF\xBF\xBD\"");
}

TEST(JsonTest, KeysAreAddedOnce) {
  Json json;
  json["b"] = 1;
  json["a"] = 2;
  json["b"] = 3;
  EXPECT_EQ(json.dump(), R"({"b":3,"a":2})");
  EXPECT_EQ(json.Indented(), "{\n  \"b\": 3,\n  \"a\": 2\n}");
  EXPECT_EQ(json.size(), 2u);
}

TEST(JsonTest, ArraysGrow) {
  Json json;
  EXPECT_EQ(json.size(), 0u);
  json.push_back(1);
  json.push_back({{"a", 1}});
  json.back()["b"] = 2;
  EXPECT_EQ(json.dump(), R"([1,{"a":1,"b":2}])");
  EXPECT_EQ(json.size(), 2u);
}

// A random document, and the library's equal document.
Json Document(int depth, nlohmann::ordered_json& same) {
  switch (*rc::gen::inRange(0, depth > 0 ? 6 : 4)) {
    case 0:
      same = *rc::gen::arbitrary<std::int64_t>();
      return same.get<std::int64_t>();
    case 1:
      same = *rc::gen::arbitrary<double>();
      return same.get<double>();
    case 2:
      same = *rc::gen::arbitrary<std::string>();
      return same.get<std::string>();
    case 3:
      same = nullptr;
      return nullptr;
    case 4: {
      Json array = Json::array();
      same = nlohmann::ordered_json::array();
      for (int left = *rc::gen::inRange(0, 4); left > 0; --left) {
        nlohmann::ordered_json element;
        array.push_back(Document(depth - 1, element));
        same.push_back(element);
      }
      return array;
    }
    default: {
      Json object = Json::object();
      same = nlohmann::ordered_json::object();
      for (int left = *rc::gen::inRange(0, 4); left > 0; --left) {
        const std::string key = *rc::gen::arbitrary<std::string>();
        nlohmann::ordered_json value;
        object[key] = Document(depth - 1, value);
        same[key] = value;
      }
      return object;
    }
  }
}

RC_GTEST_PROP(JsonLaws, TextIsTheLibrarys, ()) {
  constexpr int kDepth = 3;
  nlohmann::ordered_json same;
  const Json json = Document(kDepth, same);
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  RC_ASSERT(json.dump() == same.dump(-1, ' ', false, replace));
  RC_ASSERT(json.Indented() == same.dump(2, ' ', false, replace));
}

}  // namespace
}  // namespace stepcast::report
