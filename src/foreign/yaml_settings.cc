#include <algorithm>
#include <optional>
#include <utility>

#include "src/foreign/settings_files.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::foreign {
namespace {

using scenario::NodeKind;
using scenario::YamlNode;

void Flatten(const YamlNode& node, const std::string& name, Document& document) {
  if (!document.HasRoomFor(name, node.position.location())) return;
  if (node.kind == NodeKind::kMapping && !node.entries.empty()) {
    for (const YamlNode::Entry& entry : node.entries) {
      Flatten(*entry.value, name.empty() ? entry.key : name + "." + entry.key, document);
    }
    return;
  }
  Setting setting{name, {}, node.position.location()};
  if (node.kind == NodeKind::kScalar) {
    setting.value = Value::Text(node.scalar);
  } else if (node.kind == NodeKind::kSequence) {
    setting.value.kind = Value::Kind::kList;
    for (const auto& item : node.items) {
      setting.value.items.push_back(
          item->kind == NodeKind::kScalar ? item->scalar : scenario::CanonicalText(*item));
    }
  }
  document.settings.push_back(std::move(setting));
}

}  // namespace

Result<Document> ParseYamlSettings(std::string_view text, const std::string& file) {
  std::string spaced(text);
  const std::size_t begin = spaced.find_first_not_of(" \t\r\n");
  // JSON may be indented with tabs, which YAML forbids; JSON strings cannot contain them.
  if (begin != std::string::npos && spaced[begin] == '{') {
    std::replace(spaced.begin(), spaced.end(), '\t', ' ');
  }
  Diagnostics mistakes;
  const std::optional<scenario::YamlTree> tree = scenario::ParseYaml(spaced, file, mistakes);
  if (!tree || !mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  Document document{.file = file};
  if ((*tree)->kind == NodeKind::kMapping) Flatten(**tree, "", document);
  return document;
}

}  // namespace stepcast::foreign
