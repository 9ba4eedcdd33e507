#include <cstddef>
#include <string>

#include "gtest/gtest.h"
#include "src/foreign/import.h"

namespace stepcast::foreign {
namespace {

TEST(ReplaceVariables, TakesWhatTheUserSaysAndTheFilesOwnKeys) {
  Document document{"a.yaml",
                    {{"tp", Value::Text("${TP}")},
                     {"data.seq", Value::Text("${model.seq}")},
                     {"model.seq", Value::Text("4096")},
                     {"pp", Value::Text("$PP")},
                     {"model.ffn", Value::Text("${multiply:4, ${.seq}}")},
                     {"path", Value::Text("costs $")}}};
  ReplaceVariables(document, {{"TP", "4"}});
  EXPECT_EQ(document.Find("tp")->value.Integer(), 4);
  EXPECT_EQ(document.Find("data.seq")->value.Integer(), 4096);
  EXPECT_EQ(document.Find("model.ffn")->value.Integer(), 16384);
  EXPECT_EQ(document.Find("pp")->value.unknown, (std::vector<std::string>{"PP"}));
  EXPECT_TRUE(document.Find("path")->value.unknown.empty());
}

TEST(ReplaceVariables, TakesWhatStandsBehindTheColonOtherwise) {
  Document document{"a.yaml", {{"tp", Value::Text("${TP:4}")}, {"pp", Value::Text("${PP:2}x")}}};
  ReplaceVariables(document, {{"TP", "8"}});
  EXPECT_EQ(document.Find("tp")->value.text, "8");
  EXPECT_EQ(document.Find("pp")->value.text, "2x");
}

// Each value is twice as long as the one before.
TEST(ReplaceVariables, ValuesOfValuesEnd) {
  Document document{"a.yaml", {{"a0", Value::Text(std::string(1000, 'x'))}}};
  for (int i = 1; i < 60; ++i) {
    const std::string before = "${a" + std::to_string(i - 1) + "}";
    document.settings.push_back({"a" + std::to_string(i), Value::Text(before + before)});
  }
  ReplaceVariables(document, {});
  std::size_t characters = 0;
  for (const Setting& setting : document.settings) characters += setting.value.text.size();
  EXPECT_LT(characters, 3'000'000U);
  EXPECT_FALSE(document.settings.back().value.unknown.empty());
}

}  // namespace
}  // namespace stepcast::foreign
