#include "src/foreign/recognise.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <system_error>

#include "src/base/text_file.h"
#include "src/foreign/frameworks.h"
#include "src/foreign/recipes.h"
#include "src/foreign/yaml_settings.h"

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
  // Arguments without a command.
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text.substr(begin).starts_with("--") &&
      !text.substr(begin).starts_with("---")) {
    return Syntax::kShell;
  }
  return Syntax::kYaml;
}

bool IsRecipe(const std::string& name) {
  std::error_code error;
  return RecipeOf(name) != nullptr && !std::filesystem::exists(name, error);
}

bool IsOfAnotherProgram(const std::string& file) {
  if (IsRecipe(file)) return true;
  // A pipe gives what it has once, and to the reader of scenarios.
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  Diagnostics ignored;
  const auto text = ReadTextFile(file, ignored);
  if (!text || text->size() > kLargestConfiguration) return false;
  if (SyntaxOf(file, *text) != Syntax::kYaml) return true;
  const auto document = ParseYamlSettings(*text, file);
  return document && !IsScenario(*document) &&
         (Recognise(*document) || IsModel(*document) || !OtherProgramOf(*document).empty());
}

}  // namespace stepcast::foreign
