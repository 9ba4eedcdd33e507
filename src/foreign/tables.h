#pragma once

#include <string_view>

#include "src/scenario/yaml_tree.h"

// Tables about other programs: their options, names of models, and recipes. The tables are YAML
// files in src/foreign/tables, and are embedded at build time.
namespace stepcast::foreign {

std::string_view AccelerateTable();
std::string_view AxolotlTable();
std::string_view DeepSpeedTable();
std::string_view MegatronTable();
std::string_view ModelsTable();
std::string_view NanotronTable();
std::string_view NemoTable();
std::string_view OtherProgramsTable();
std::string_view RecipesTable();
std::string_view TorchtitanTable();
std::string_view TorchtitanPythonTable();
std::string_view TorchtuneTable();
std::string_view TransformersTable();

// Parses the text of a table.
scenario::YamlTree ParseTable(std::string_view text);

// Returns the table, which is parsed at the first call and never freed.
template <std::string_view (*kText)()>
const scenario::YamlNode& Table() {
  static const scenario::YamlTree table = ParseTable(kText());
  return *table;
}

// Returns the text of a key of a table or a row. Empty if the key is missing.
std::string_view TextAt(const scenario::YamlNode& node, std::string_view key);

}  // namespace stepcast::foreign
