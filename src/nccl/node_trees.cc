#include "src/nccl/node_trees.h"

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

}  // namespace stepcast::nccl
