#include "src/nccl/trees.h"

#include <bit>
#include <cstddef>

#include "src/base/check.h"
#include "src/nccl/node_trees.h"

namespace stepcast::nccl {
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
