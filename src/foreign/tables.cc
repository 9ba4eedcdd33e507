#include "src/foreign/tables.h"

#include <optional>
#include <utility>

#include "src/base/check.h"

namespace stepcast::foreign {

scenario::YamlTree ParseTable(std::string_view text) {
  Diagnostics mistakes;
  std::optional<scenario::YamlTree> table = scenario::ParseYaml(text, "table", mistakes, false);
  STEPCAST_CHECK(table && mistakes.empty(), "an embedded table is valid YAML");
  return *std::move(table);
}

std::string_view TextAt(const scenario::YamlNode& node, std::string_view key) {
  const scenario::YamlNode* const value = scenario::Child(node, key);
  return value == nullptr ? std::string_view() : std::string_view(value->scalar);
}

}  // namespace stepcast::foreign
