#include "src/parallel/colouring.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "src/base/check.h"

namespace stepcast::parallel {
namespace {

// What a node sees: its own colour, and the labels and colours at the other ends of its edges.
using View = std::pair<int, std::vector<std::pair<std::int64_t, int>>>;

template <typename Key>
std::vector<int> Numbered(const std::vector<Key>& keys) {
  std::map<Key, int> numbers;
  std::vector<int> colours;
  colours.reserve(keys.size());
  for (const Key& key : keys) {
    colours.push_back(numbers.emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return colours;
}

int Count(const std::vector<int>& colours) {
  return colours.empty() ? 0 : *std::max_element(colours.begin(), colours.end()) + 1;
}

}  // namespace

std::vector<int> StableColours(const LabelledGraph& graph) {
  const std::size_t nodes = graph.labels.size();
  const auto is_node = [&](int node) {
    return node >= 0 && static_cast<std::size_t>(node) < nodes;
  };
  for (const LabelledGraph::Edge& edge : graph.edges) {
    STEPCAST_CHECK(is_node(edge.a) && is_node(edge.b), "an edge joins two nodes");
  }
  std::vector<int> colours = Numbered(graph.labels);
  for (int before = -1; Count(colours) != before;) {
    before = Count(colours);
    std::vector<View> views(nodes);
    for (std::size_t node = 0; node < nodes; ++node) views[node].first = colours[node];
    for (const LabelledGraph::Edge& edge : graph.edges) {
      const auto a = static_cast<std::size_t>(edge.a);
      const auto b = static_cast<std::size_t>(edge.b);
      views[a].second.emplace_back(edge.label, colours[b]);
      views[b].second.emplace_back(edge.label, colours[a]);
    }
    for (View& view : views) std::sort(view.second.begin(), view.second.end());
    colours = Numbered(views);
  }
  return colours;
}

}  // namespace stepcast::parallel
