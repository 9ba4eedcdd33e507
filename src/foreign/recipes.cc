#include "src/foreign/recipes.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <system_error>
#include <utility>

#include "src/base/files.h"
#include "src/foreign/frameworks.h"
#include "src/foreign/settings_files.h"
#include "src/foreign/shared_options.h"
#include "src/foreign/tables.h"
#include "src/scenario/source_names.h"

namespace stepcast::foreign {
Syntax SyntaxOf(const std::string& file, std::string_view text) {
  const auto ends = [&file](std::initializer_list<const char*> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&file](const char* ending) { return file.ends_with(ending); });
  };
  if (ends({".toml"})) return Syntax::kToml;
  if (ends({".py"})) return Syntax::kPython;
  if (ends({".sh", ".bash", ".sbatch", ".slurm"})) return Syntax::kShell;
  if (text.starts_with("#!") && text.substr(0, text.find('\n')).find("sh") != text.npos) {
    return Syntax::kShell;
  }
  // Command-line arguments without a command.
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text.substr(begin).starts_with("--") &&
      !text.substr(begin).starts_with("---")) {
    return Syntax::kShell;
  }
  return Syntax::kYaml;
}

bool IsRecipe(const std::string& name) {
  std::error_code error;
  return RecipeOf(name) != nullptr && !std::filesystem::exists(name, error) &&
         !scenario::FindSource(name, "", scenario::SourceKind::kModel).has_value();
}

bool IsModelName(const std::string& name) {
  std::error_code error;
  if (name.empty() || IsRecipe(name) || std::filesystem::is_regular_file(name, error)) return false;
  const auto found = scenario::FindSource(name, "", scenario::SourceKind::kModel);
  // A folder without a config.json is not a model, even if its name begins like one.
  if (found && std::filesystem::is_directory(*found, error)) return false;
  return ModelOfTheHub(name).has_value() || (found && !name.ends_with(".yaml"));
}

namespace {

// The text of a file. A pipe can be read only once, by the scenario reader.
std::optional<std::string> TextOf(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  Diagnostics ignored;
  auto text = ReadTextFile(file, ignored);
  if (!text || text->size() > kLargestConfiguration) return std::nullopt;
  return text;
}

}  // namespace

bool IsScenarioFile(const std::string& file) {
  const auto text = TextOf(file);
  if (!text || SyntaxOf(file, *text) != Syntax::kYaml) return false;
  const auto document = ParseYamlSettings(*text, file);
  return document && IsScenario(*document);
}

bool IsOfAnotherProgram(const std::string& file) {
  if (IsRecipe(file) || IsModelName(file)) return true;
  const auto text = TextOf(file);
  if (!text) return false;
  if (SyntaxOf(file, *text) != Syntax::kYaml) return true;
  const auto document = ParseYamlSettings(*text, file);
  return document && !IsScenario(*document) &&
         (Recognise(*document) || IsModel(*document) || !OtherProgramOf(*document).empty());
}

namespace {

// The start of a user's own recipe in a file for Megatron-Bridge.
constexpr Recipe kBeginning = {"_pretrain_common", "", ""};

// The name without parts for a kind of training, a number of GPUs, a GPU type or a data type.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    plain +=
        c == '-' || c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const std::size_t cut = plain.find("_pretrain");
  return plain.substr(0, cut);
}

}  // namespace

void AddSettings(std::string_view settings, const Location& location, Document& document) {
  for (const auto& [name, value] : SplitPairs(settings)) {
    document.settings.push_back({std::string(name), Value::Text(std::string(value)), location});
  }
}

std::span<const Recipe> Recipes() {
  static const std::vector<Recipe> recipes = [] {
    std::vector<Recipe> all;
    for (const auto& [name, position, row] :
         scenario::Child(Table<RecipesTable>(), "recipes")->entries) {
      all.push_back({name, TextAt(*row, "model"), TextAt(*row, "settings")});
    }
    return all;
  }();
  return recipes;
}

const Recipe* RecipeOf(std::string_view name) {
  if (name == kBeginning.name) return &kBeginning;
  const std::string plain = Plain(name);
  for (const Recipe& recipe : Recipes()) {
    if (recipe.name == plain) return &recipe;
  }
  return nullptr;
}

Document WithRecipe(const Recipe& recipe, const Location& location, Document document) {
  Document whole{.file = document.file};
  AddSettings(TextAt(Table<RecipesTable>(), "common"), location, whole);
  AddSettings(recipe.settings, location, whole);
  if (!recipe.model.empty()) {
    whole.settings.push_back({"recipe.model", Value::Text(std::string(recipe.model)), location});
  }
  std::move(document.settings.begin(), document.settings.end(), std::back_inserter(whole.settings));
  return whole;
}

}  // namespace stepcast::foreign
