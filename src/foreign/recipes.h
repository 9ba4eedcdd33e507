#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Recipes that Megatron-Bridge, and NeMo before it, have by name: what each of them sets, as its
// files would write it.

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

// No configuration is larger: they are kilobytes, and reading them compares their parts.
inline constexpr std::size_t kLargestConfiguration = std::size_t{1} << 20;

// How a file's text is taken apart.
enum class Syntax : std::uint8_t { kToml, kYaml, kShell, kPython };

// By its ending, else by how it begins.
Syntax SyntaxOf(const std::string& file, std::string_view text);

// Whether this is the name of a recipe (recipes.h), and not of a file.
bool IsRecipe(const std::string& name);

// Whether this names a model that is there, here or on the Hub, and not a file.
bool IsModelName(const std::string& name);

// Whether Import takes it: another program's configuration, a recipe or a model. False for
// scenarios, for unreadable, too large and unknown files, and for pipes, which can be read only
// once.
bool IsOfAnotherProgram(const std::string& file);

}  // namespace stepcast::foreign
