#include "src/scenario/node_path.h"

#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace stepcast::scenario {

Followed Follow(Node node, std::string_view path) {
  while (!path.empty()) {
    std::optional<Node> below;
    if (path.front() == '[') {
      const std::size_t close = path.find(']');
      std::size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + close, index);
      const std::vector<Node> items = node.items();
      if (index < items.size()) below = items[index];
      path.remove_prefix(close + 1);
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const std::string_view key = path.substr(0, path.find_first_of(".["));
      for (const auto& [name, value] : node.entries()) {
        if (name == key) below = value;
      }
      path.remove_prefix(key.size());
    }
    if (!below) return {node, false};
    node = *std::move(below);
  }
  return {node, true};
}

}  // namespace stepcast::scenario
