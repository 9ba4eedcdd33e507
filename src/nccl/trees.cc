#include "src/nccl/trees.h"

#include <bit>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::nccl {
namespace {

NodeTree::Links LinksOf(int node, int nodes) {
  int bit = 1;
  while (bit < nodes && (node & bit) == 0) bit <<= 1;
  if (node == 0) return {.child1 = nodes > 1 ? bit >> 1 : -1};

  NodeTree::Links links;
  links.parent = (node ^ bit) | (bit << 1);
  if (links.parent >= nodes) links.parent = node ^ bit;
  int half = bit >> 1;
  if (half == 0) return links;
  links.child0 = node - half;
  while (half > 0 && node + half >= nodes) half >>= 1;
  if (half > 0) links.child1 = node + half;
  return links;
}

template <typename Renumber>
NodeTree Renumbered(const NodeTree& tree, Renumber renumber) {
  const auto renumbered = [&](int node) { return node == -1 ? -1 : renumber(node); };
  NodeTree result;
  result.nodes.resize(tree.nodes.size());
  for (std::size_t node = 0; node < tree.nodes.size(); ++node) {
    const NodeTree::Links& links = tree.nodes[node];
    result.nodes[static_cast<std::size_t>(renumber(static_cast<int>(node)))] = {
        renumbered(links.parent), renumbered(links.child0), renumbered(links.child1)};
  }
  return result;
}

}  // namespace

int NodeTree::root() const {
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].parent == -1) return static_cast<int>(node);
  }
  return -1;
}

bool NodeTree::IsChild0(int node) const {
  const int parent = nodes[static_cast<std::size_t>(node)].parent;
  return parent != -1 && nodes[static_cast<std::size_t>(parent)].child0 == node;
}

NodeTrees MakeNodeTrees(int nodes) {
  STEPCAST_CHECK(nodes >= 1, "a communicator has nodes");
  NodeTrees trees;
  for (int node = 0; node < nodes; ++node) trees.tree0.nodes.push_back(LinksOf(node, nodes));
  trees.tree1 = nodes % 2 == 0
                    ? Renumbered(trees.tree0, [&](int node) { return nodes - 1 - node; })
                    : Renumbered(trees.tree0, [&](int node) { return (node + 1) % nodes; });
  return trees;
}

namespace {

// The GPU of the chain on which a child hangs.
std::size_t ChildPosition(Pattern pattern, bool child0) {
  if (pattern == Pattern::kSplitTree) return 1;
  if (pattern == Pattern::kBalancedTree) return child0 ? 1 : 0;
  return 0;
}

Tree MakeTree(const Graph& graph, const ChannelPath& path, const NodeTree& nodes) {
  const std::size_t gpus = path.gpus.size();
  Tree tree;
  tree.ranks.resize(nodes.nodes.size() * gpus);
  const auto rank = [&](std::size_t node, std::size_t position) {
    return static_cast<int>(node * gpus) + path.gpus[position];
  };
  const auto join = [&](int parent, int child) {
    tree.ranks[static_cast<std::size_t>(child)].parent = parent;
    tree.ranks[static_cast<std::size_t>(parent)].children.push_back(child);
  };
  for (std::size_t node = 0; node < nodes.nodes.size(); ++node) {
    for (std::size_t i = 1; i < gpus; ++i) join(rank(node, i - 1), rank(node, i));
  }
  for (std::size_t node = 0; node < nodes.nodes.size(); ++node) {
    const NodeTree::Links& links = nodes.nodes[node];
    for (const bool child0 : {true, false}) {
      const int child = child0 ? links.child0 : links.child1;
      if (child == -1) continue;
      const std::size_t position = gpus == 1 ? 0 : ChildPosition(graph.pattern, child0);
      join(rank(node, position), rank(static_cast<std::size_t>(child), 0));
    }
  }
  return tree;
}

}  // namespace

std::vector<Tree> MakeTrees(const Graph& tree, int nodes) {
  STEPCAST_CHECK(static_cast<int>(tree.paths.size()) == tree.channels,
                 "trees need the paths of their channels");
  const NodeTrees across = MakeNodeTrees(nodes);
  std::vector<Tree> trees;
  for (const NodeTree* shape : {&across.tree0, &across.tree1}) {
    for (const ChannelPath& path : tree.paths) trees.push_back(MakeTree(tree, path, *shape));
  }
  return trees;
}

int TreeDepth(int ranks_per_node, int nodes) {
  return ranks_per_node - 1 + std::bit_width(static_cast<unsigned>(nodes)) - 1;
}

}  // namespace stepcast::nccl
