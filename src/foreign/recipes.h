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
  std::string_view model;  // a name of ours; or the Hub's, if the data root has none
  // The settings by their names in NeMo, separated by spaces, such as
  // "model.tensor_model_parallel_size=4".
  std::string_view settings;
};

// The release of Megatron-Bridge from which the table of recipes is taken.
inline constexpr std::string_view kRecipeRelease = "NVIDIA-NeMo/Megatron-Bridge@0d5f5558c16f";

std::span<const Recipe> Recipes();

// Returns the recipe for a name in files, options and functions, such as "llama3_8b",
// "llama3_8b_pretrain_config" or "Llama3-8B". The name "_pretrain_common" returns the settings that
// all recipes have in common. Null if there is no such recipe.
const Recipe* RecipeOf(std::string_view name);

// Returns the document with the recipe's settings before its own settings. The document's own
// settings therefore take precedence. `location` is the place where the recipe was chosen.
Document WithRecipe(const Recipe& recipe, const Location& location, Document document);

// The largest size of a configuration file, in bytes. Real files have kilobytes. There is a limit
// because reading compares the parts of a file with each other.
inline constexpr std::size_t kLargestConfiguration = std::size_t{1} << 20;

// The syntax of a file.
enum class Syntax : std::uint8_t { kToml, kYaml, kShell, kPython };

// Returns the syntax of a file. It follows from the file's extension or, if the extension is
// unknown, from the beginning of the text.
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
