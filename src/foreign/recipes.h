#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Named recipes of Megatron-Bridge, and of NeMo before it: their settings, in the form of
// configuration files.

struct Recipe {
  std::string_view name;   // "llama3_8b"
  std::string_view model;  // one of our names, or the Hub's if the data root has none
  // Settings by NeMo's names: "model.tensor_model_parallel_size=4", separated by spaces.
  std::string_view settings;
};

// The release of Megatron-Bridge from which the table of recipes is taken.
inline constexpr std::string_view kRecipeRelease = "NVIDIA-NeMo/Megatron-Bridge@0d5f5558c16f";

std::span<const Recipe> Recipes();

// The recipe for a name in files, options and functions: "llama3_8b", "llama3_8b_pretrain_config",
// "Llama3-8B". "_pretrain_common" gives the common settings of all recipes. Null if there is none.
const Recipe* RecipeOf(std::string_view name);

// The document with the recipe's settings placed before its own, which therefore override them.
// `location` is where the recipe was chosen.
Document WithRecipe(const Recipe& recipe, const Location& location, Document document);

// The largest configuration file. Real ones have kilobytes, and reading compares their parts.
inline constexpr std::size_t kLargestConfiguration = std::size_t{1} << 20;

// The syntax of a file's text.
enum class Syntax : std::uint8_t { kToml, kYaml, kShell, kPython };

// From the file's extension, or else from the beginning of its text.
Syntax SyntaxOf(const std::string& file, std::string_view text);

// Whether this names a recipe and not a file.
bool IsRecipe(const std::string& name);

// Whether this names an existing model, ours or the Hub's, and not a file.
bool IsModelName(const std::string& name);

// Whether Import accepts the file: another program's configuration, a recipe or a model. False for
// scenarios, for unreadable, too large and unknown files, and for pipes, which can be read only
// once.
bool IsOfAnotherProgram(const std::string& file);

}  // namespace stepcast::foreign
