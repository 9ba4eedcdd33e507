#include "src/formats/json_tree.h"

#include <string>

#include "gtest/gtest.h"

namespace stepcast::formats {
namespace {

std::string FaultOf(const std::string& text) {
  const auto tree = ParseJsonTree(text);
  return tree ? "" : tree.error().what;
}

TEST(ParseJsonTree, ReadsAndSaysWhereItIsNone) {
  EXPECT_EQ(ParseJsonTree("{\"a\": [1, 2]}")->at("a").at(1), 2);
  EXPECT_EQ(FaultOf("{\"a\": [1, 2"), "it is cut off");
  EXPECT_EQ(FaultOf("{\"a\": 1, b}"), "unexpected text");
  EXPECT_EQ(ParseJsonTree("{\"a\": 1, b}").error().offset, 9u);
  EXPECT_EQ(FaultOf("[1e999]"), "a number is too large");
}

TEST(ParseJsonTree, IsBounded) {
  EXPECT_EQ(FaultOf(std::string(60, '[') + std::string(60, ']')), "");
  EXPECT_EQ(FaultOf(std::string(100'000, '[')), "brackets are nested more than 64 levels deep");
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  EXPECT_EQ(FaultOf(many + "]"), "it has more than 1000000 values");
}

}  // namespace
}  // namespace stepcast::formats
