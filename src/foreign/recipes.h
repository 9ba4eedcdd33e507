#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// The named recipes of Megatron-Bridge, and of NeMo before it: their settings, in the form of
// configuration files.

struct Recipe {
  std::string_view name;   // "llama3_8b"
  std::string_view model;  // one of our names, or the Hub's if the data root has none
  // The settings by NeMo's names, separated by spaces: "model.tensor_model_parallel_size=4".
  std::string_view settings;
};

// The release of Megatron-Bridge that the table of recipes is taken from.
inline constexpr std::string_view kRecipeRelease = "NVIDIA-NeMo/Megatron-Bridge@0d5f5558c16f";

std::span<const Recipe> Recipes();

// Returns the recipe for a name in files, options and functions: "llama3_8b",
// "llama3_8b_pretrain_config", "Llama3-8B". The name "_pretrain_common" returns the common settings
// of all recipes. Null if there is no such recipe.
const Recipe* RecipeOf(std::string_view name);

// Returns the document with the recipe's settings before the document's own settings, which
// therefore override them. `location` is where the recipe was chosen.
Document WithRecipe(const Recipe& recipe, const Location& location, Document document);

// The maximum size of a configuration file, in bytes. Real files have kilobytes, and reading
// compares their parts.
inline constexpr std::size_t kLargestConfiguration = std::size_t{1} << 20;

// The syntax of a file.
enum class Syntax : std::uint8_t { kToml, kYaml, kShell, kPython };

// Returns the syntax, from the file's extension or, if that is unknown, from the beginning of the
// text.
Syntax SyntaxOf(const std::string& file, std::string_view text);

// Returns whether the name denotes a recipe and not a file.
bool IsRecipe(const std::string& name);

// Returns whether the name denotes an existing model (stepcast's or the Hub's) and not a file.
bool IsModelName(const std::string& name);

// Returns whether Import accepts the file: another program's configuration, a recipe or a model.
// False for scenarios, for unreadable, too large and unknown files, and for pipes, which can be
// read only once.
bool IsOfAnotherProgram(const std::string& file);

}  // namespace stepcast::foreign
