#include "gtest/gtest.h"
#include "src/foreign/settings_files.h"

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

}  // namespace
}  // namespace stepcast::foreign
