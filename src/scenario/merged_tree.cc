#include <memory>

#include "src/scenario/calibration_file.h"

namespace stepcast::scenario {

YamlTree Merged(const YamlTree& base, const YamlTree& over) {
  if (base->kind != NodeKind::kMapping || over->kind != NodeKind::kMapping) return over;
  auto merged = std::make_shared<YamlNode>(*base);
  for (const YamlNode::Entry& entry : over->entries) {
    YamlNode::Entry* found = merged->Find(entry.key);
    if (entry.value->kind == NodeKind::kNull) {
      std::erase_if(merged->entries, [&](const auto& own) { return own.key == entry.key; });
    } else if (found == nullptr) {
      merged->entries.push_back(entry);
    } else {
      found->value = Merged(found->value, entry.value);
      found->position = entry.position;
    }
  }
  return merged;
}

}  // namespace stepcast::scenario
