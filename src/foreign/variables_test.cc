#include "src/foreign/variables.h"

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace stepcast::foreign
