#include "gtest/gtest.h"
#include "src/foreign/readers.h"

namespace stepcast::foreign {
namespace {

using Pattern = std::vector<bool>;

TEST(LayerPattern, SumsAndMultiplesOfLists) {
  EXPECT_EQ(ParseLayerPattern(Value::Text("([0]*2+[1]*3)")),
            (Pattern{false, false, true, true, true}));
  EXPECT_EQ(ParseLayerPattern(Value::Text("'([0, 1]) * 2'")), (Pattern{false, true, false, true}));
  EXPECT_EQ(ParseLayerPattern(Value::Text("([1]+[0]*2)*1+[1]")),
            (Pattern{true, false, false, true}));
}

TEST(LayerPattern, ListsOfOtherFiles) {
  Value value{.kind = Value::Kind::kList};
  value.items = {"0", "1"};
  EXPECT_EQ(ParseLayerPattern(value), (Pattern{false, true}));
}

TEST(LayerPattern, NothingElseIsEvaluated) {
  for (const char* text : {"", "3", "[0]*", "[0]*-1", "[2]", "([0]", "[0])", "[0]*99999999999999",
                           "f()", "[0]*[1]", "[1]*10000+[1]", "[1]*0"}) {
    EXPECT_FALSE(ParseLayerPattern(Value::Text(text)).has_value()) << text;
  }
  std::string nested(50, '(');
  nested.append("[0]").append(50, ')');
  EXPECT_FALSE(ParseLayerPattern(Value::Text(nested)).has_value());
}

}  // namespace
}  // namespace stepcast::foreign
