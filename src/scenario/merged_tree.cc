#include <algorithm>
#include <memory>

#include "src/scenario/calibration_file.h"

namespace stepcast::scenario {

YamlTree Merged(const YamlTree& base, const YamlTree& over) {
  if (base->kind != NodeKind::kMapping || over->kind != NodeKind::kMapping) return over;
  auto merged = std::make_shared<YamlNode>(*base);
  for (const YamlNode::Entry& entry : over->entries) {
    const auto found =
        std::find_if(merged->entries.begin(), merged->entries.end(),
                     [&](const YamlNode::Entry& own) { return own.key == entry.key; });
    if (entry.value->kind == NodeKind::kNull) {
      if (found != merged->entries.end()) merged->entries.erase(found);
    } else if (found == merged->entries.end()) {
      merged->entries.push_back(entry);
    } else {
      found->value = Merged(found->value, entry.value);
      found->position = entry.position;
    }
  }
  return merged;
}

}  // namespace stepcast::scenario
