#include "src/foreign/setting.h"

#include "gtest/gtest.h"

namespace stepcast::foreign {
namespace {

TEST(Value, ReadsNumbersAsOtherProgramsWriteThem) {
  EXPECT_EQ(Value::Text("8192").Integer(), 8192);
  EXPECT_EQ(Value::Text("1e9").Integer(), 1'000'000'000);
  EXPECT_EQ(Value::Text("10_000").Integer(), 10'000);
  EXPECT_EQ(Value::Text("2.0").Integer(), 2);
  EXPECT_EQ(Value::Text("-1").Integer(), -1);
  EXPECT_EQ(Value::Text("0.5").Integer(), std::nullopt);
  EXPECT_EQ(Value::Text("auto").Integer(), std::nullopt);
  EXPECT_EQ(Value::Text("").Integer(), std::nullopt);
  EXPECT_EQ(Value::Text("3e-4").Number(), 3e-4);
}

TEST(Value, ReadsWordsOfYamlTomlJsonAndPython) {
  for (const char* word : {"true", "True", "yes", "on", "1"}) {
    EXPECT_EQ(Value::Text(word).Boolean(), true) << word;
  }
  for (const char* word : {"false", "False", "no", "OFF", "0"}) {
    EXPECT_EQ(Value::Text(word).Boolean(), false) << word;
  }
  EXPECT_EQ(Value::Text("auto").Boolean(), std::nullopt);
}

TEST(Document, TheLastSettingOfANameHolds) {
  const Document document{
      "a.sh", {{"seq-length", Value::Text("1024")}, {"seq-length", Value::Text("2048")}}};
  ASSERT_NE(document.Find("seq-length"), nullptr);
  EXPECT_EQ(document.Find("seq-length")->value.text, "2048");
  EXPECT_EQ(document.Find("seq"), nullptr);
}

TEST(Document, HasNamesAndWhatIsBelowThem) {
  const Document document{"a.toml", {{"training.seq_len", Value::Text("1024")}}};
  EXPECT_TRUE(document.Has("training"));
  EXPECT_TRUE(document.Has("training.seq_len"));
  EXPECT_FALSE(document.Has("train"));
}

TEST(Origin, NamesFileAndLine) {
  EXPECT_EQ(Origin({"train.toml", 14, 3}), "train.toml:14");
  EXPECT_EQ(Origin({"config.json", 0, 0}), "config.json");
}

TEST(Value, WordsAreItemsOrWordsOfAText) {
  const std::vector<std::string> words = {"moe_act", "layernorm"};
  EXPECT_EQ(Value::Text("moe_act layernorm").Words(), words);
  EXPECT_EQ(Value::Text(" moe_act, layernorm ").Words(), words);
  EXPECT_EQ((Value{.kind = Value::Kind::kList, .items = words}).Words(), words);
  EXPECT_TRUE(Value().Words().empty());
}

TEST(Document, HasRoomForWhatAConfigurationHas) {
  Document document{.file = "a.toml"};
  EXPECT_TRUE(document.HasRoomFor("training.seq_len", {"a.toml", 1, 1}));
  EXPECT_FALSE(document.HasRoomFor(std::string(1'001, 'x'), {"a.toml", 2, 1}));
  ASSERT_TRUE(document.too_large.has_value());
  EXPECT_EQ(document.too_large->line, 2);
  EXPECT_FALSE(document.HasRoomFor("a", {"a.toml", 3, 1}));  // no room after it
}

}  // namespace
}  // namespace stepcast::foreign
