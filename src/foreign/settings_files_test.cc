#include "src/foreign/settings_files.h"

#include "gtest/gtest.h"

namespace stepcast::foreign {
namespace {

TEST(Toml, TablesBecomeDottedNamesWithTheirPositions) {
  const auto document = ParseToml(
      "[training]\n"
      "seq_len = 8_192  # tokens\n"
      "max_norm = 1.0\n"
      "compile = true\n"
      "[model]\n"
      "converters = [\"float8\", 'mx']\n"
      "flavor = '8B'\n",
      "train.toml");
  ASSERT_TRUE(document.has_value());
  ASSERT_EQ(document->settings.size(), 5u);
  EXPECT_EQ(document->settings[0].name, "training.seq_len");
  EXPECT_EQ(document->settings[0].value.Integer(), 8192);
  EXPECT_EQ(document->settings[0].location.line, 2);
  EXPECT_EQ(document->Find("training.max_norm")->value.Number(), 1.0);
  EXPECT_EQ(document->Find("training.compile")->value.Boolean(), true);
  EXPECT_EQ(document->Find("model.converters")->value.items,
            (std::vector<std::string>{"float8", "mx"}));
  EXPECT_EQ(document->Find("model.flavor")->location.line, 7);
}

TEST(Toml, KeysOfThousandsOfPartsAreAMistake) {
  std::string key = "x = 1\n";
  for (int i = 0; i < 10'000; ++i) key += "a.";
  const auto document = ParseToml(key + "b = 1", "a.toml");
  ASSERT_FALSE(document.has_value());
  EXPECT_EQ(document.error().front().location.line, 2);
}

TEST(Toml, AMistakeHasItsPosition) {
  const auto document = ParseToml("[training]\nseq_len = \n", "train.toml");
  ASSERT_FALSE(document.has_value());
  ASSERT_EQ(document.error().size(), 1u);
  EXPECT_EQ(document.error()[0].code, "foreign.syntax");
  EXPECT_EQ(document.error()[0].location.line, 2);
}

TEST(Yaml, MappingsBecomeDottedNames) {
  const auto document = ParseYamlSettings(
      "fsdp_config:\n"
      "  fsdp_version: 2\n"
      "  wrap: []\n"
      "special_tokens:\n"
      "datasets:\n"
      "  - path: a\n",
      "axolotl.yaml");
  ASSERT_TRUE(document.has_value());
  ASSERT_EQ(document->settings.size(), 4u);
  EXPECT_EQ(document->settings[0].name, "fsdp_config.fsdp_version");
  EXPECT_EQ(document->settings[0].location.line, 2);
  EXPECT_EQ(document->settings[1].value.kind, Value::Kind::kList);
  EXPECT_EQ(document->settings[2].value.kind, Value::Kind::kNothing);
  EXPECT_EQ(document->settings[3].value.items.size(), 1u);
}

TEST(Yaml, JsonMayBeIndentedByTabs) {
  const auto document = ParseYamlSettings(
      "{\n\t\"zero_optimization\": {\n\t\t\"stage\": 3,\n\t\t\"sub_group_size\": 1e9\n\t}\n}\n",
      "ds.json");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(document->Find("zero_optimization.stage")->value.text, "3");
  EXPECT_EQ(document->Find("zero_optimization.sub_group_size")->value.Integer(), 1'000'000'000);
  EXPECT_EQ(document->Find("zero_optimization.stage")->location.line, 3);
}

TEST(Yaml, MistakesAreThoseOfYaml) {
  const auto document = ParseYamlSettings("a: [1\n", "a.yaml");
  ASSERT_FALSE(document.has_value());
  EXPECT_EQ(document.error()[0].code, "yaml.syntax");
}

}  // namespace

}  // namespace stepcast::foreign
