#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// A named recipe of Megatron-Bridge or NeMo, with its settings as in configuration files.

struct Recipe {
  std::string_view name;   // "llama3_8b"
  std::string_view model;  // a model of stepcast or, if missing, of the Hugging Face Hub
  // The settings with NeMo's names, separated by spaces, such as
  // "model.tensor_model_parallel_size=4".
  std::string_view settings;
};

// The release of Megatron-Bridge that contains the recipes.
inline constexpr std::string_view kRecipeRelease = "NVIDIA-NeMo/Megatron-Bridge@0d5f5558c16f";

std::span<const Recipe> Recipes();

// Returns the recipe for a name in files, options and functions, such as "llama3_8b",
// "llama3_8b_pretrain_config" or "Llama3-8B". "_pretrain_common" has the settings common to all
// recipes. Null if no recipe has this name.
const Recipe* RecipeOf(std::string_view name);

// Appends settings such as "bf16=true clip_grad=1.0". `location` is where they were selected.
void AddSettings(std::string_view settings, const Location& location, Document& document);

// Inserts the recipe's settings before the document's settings, which have priority. `location` is
// where the recipe was selected.
Document WithRecipe(const Recipe& recipe, const Location& location, Document document);

// The largest size of a configuration file, in bytes, because the reading time is quadratic in the
// size. Real files have kilobytes.
inline constexpr std::size_t kLargestConfiguration = std::size_t{1} << 20;

// The syntax of a configuration file.
enum class Syntax : std::uint8_t { kToml, kYaml, kShell, kPython };

// Returns the syntax of a file, from its extension or, if the extension is unknown, from the start
// of its text.
Syntax SyntaxOf(const std::string& file, std::string_view text);

// Returns whether `name` is a recipe rather than a file.
bool IsRecipe(const std::string& name);

// Returns whether `name` is a model of stepcast or the Hugging Face Hub rather than a file.
bool IsModelName(const std::string& name);

// Returns whether the file is a scenario. False for files that IsOfAnotherProgram does not read.
bool IsScenarioFile(const std::string& file);

// Returns whether Import accepts the file: another program's configuration, a recipe or a model.
// False for scenarios, for unreadable, too large or unknown files, and for pipes (because they can
// be read only once).
bool IsOfAnotherProgram(const std::string& file);

}  // namespace stepcast::foreign
