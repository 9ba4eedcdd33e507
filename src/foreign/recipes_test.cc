#include "src/foreign/recipes.h"

#include <set>

#include "gtest/gtest.h"

namespace stepcast::foreign {
namespace {

TEST(Recipes, AreFoundByTheNamesThatFilesHaveForThem) {
  for (const char* name : {"llama3_8b", "llama3_8b_pretrain_config", "Llama3-8B",
                           "llama3_8b_pretrain_8gpu_h100_bf16_config"}) {
    const Recipe* recipe = RecipeOf(name);
    ASSERT_NE(recipe, nullptr) << name;
    EXPECT_EQ(recipe->name, "llama3_8b");
  }
  EXPECT_EQ(RecipeOf("llama3_8b_finetune_config"), nullptr);
  EXPECT_EQ(RecipeOf("nobody_8b"), nullptr);
  EXPECT_EQ(RecipeOf(""), nullptr);
}

TEST(Recipes, SetValuesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Recipe& recipe : Recipes()) {
    EXPECT_TRUE(names.insert(recipe.name).second) << recipe.name;
    EXPECT_EQ(RecipeOf(recipe.name), &recipe);
    const Document document = WithRecipe(recipe, {"train.sh", 3, 1}, {});
    ASSERT_NE(document.Find("model.seq_length"), nullptr) << recipe.name;
    ASSERT_NE(document.Find("train.global_batch_size"), nullptr);
    EXPECT_EQ(document.Find("recipe.model")->value.text, recipe.model);
    for (const Setting& setting : document.settings) {
      EXPECT_FALSE(setting.value.text.empty()) << setting.name;
      EXPECT_EQ(setting.location.line, 3);
    }
  }
}

// The last setting of a name takes effect, so the file overrides the recipe.
TEST(Recipes, GiveWayToTheFile) {
  Document file{.file = "train.sh"};
  file.settings.push_back({"train.global_batch_size", Value::Text("64"), {"train.sh", 7, 1}});
  const Document whole = WithRecipe(*RecipeOf("deepseek_v3"), {"train.sh", 3, 1}, file);
  EXPECT_EQ(whole.Find("train.global_batch_size")->value.text, "64");
  EXPECT_EQ(whole.Find("model.expert_model_parallel_size")->value.text, "64");
  EXPECT_EQ(whole.Find("model.expert_model_parallel_size")->location.line, 3);
}

}  // namespace
}  // namespace stepcast::foreign
