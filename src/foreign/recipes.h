#pragma once

#include <span>
#include <string_view>

#include "src/foreign/setting.h"

// Recipes that Megatron-Bridge, and NeMo before it, have by name: what each of them sets, as its
// files would write it.
namespace stepcast::foreign {

struct Recipe {
  std::string_view name;   // "llama3_8b"
  std::string_view model;  // a name of ours, or the Hub's where the data root has none
  // Settings of NeMo's names: "model.tensor_model_parallel_size=4", separated by spaces.
  std::string_view settings;
};

// The table of recipes holds for this release of Megatron-Bridge, whose values they are.
inline constexpr std::string_view kRecipeRelease = "NVIDIA-NeMo/Megatron-Bridge@0d5f5558c16f";

std::span<const Recipe> Recipes();

// The recipe of a name as it stands in files, options and functions: "llama3_8b",
// "llama3_8b_pretrain_config", "Llama3-8B"; for "_pretrain_common" what all of them have. Null:
// there is none.
const Recipe* RecipeOf(std::string_view name);

// The document with what the recipe sets before its own settings, so that these hold; where the
// recipe's are changed is `location`.
Document WithRecipe(const Recipe& recipe, const Location& location, Document document);

}  // namespace stepcast::foreign
