#include "src/nccl/trees.h"

#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/nccl/graphs.h"
#include "src/nccl/sample_nodes.h"

namespace stepcast::nccl {
namespace {

Graph OneChannel(Pattern pattern) {
  Graph graph;
  graph.pattern = pattern;
  graph.channels = 1;
  graph.paths = {{.gpus = {1, 0, 2}}};
  return graph;
}

std::vector<int> Parents(const Tree& tree) {
  std::vector<int> parents;
  for (const Tree::Links& links : tree.ranks) parents.push_back(links.parent);
  return parents;
}

// Chain 1 - 0 - 2 in each of four nodes; over the nodes 0 - 2 - {1, 3}, where 2 is the second child
// of 0, 1 the first and 3 the second of 2. The GPU facing the parent is number 1: ranks 1, 4,
// 7, 10.
//  * plain: children hang on number 1
//  * balanced: first children hang on number 0 (of node 2: rank 6), second ones on number 1
//  * split: all on number 0
TEST(TreesTest, ChildrenHangWhereThePatternSays) {
  EXPECT_EQ(Parents(MakeTrees(OneChannel(Pattern::kTree), 4)[0]),
            (std::vector<int>{1, -1, 0, 4, 7, 3, 7, 1, 6, 10, 7, 9}));
  EXPECT_EQ(Parents(MakeTrees(OneChannel(Pattern::kBalancedTree), 4)[0]),
            (std::vector<int>{1, -1, 0, 4, 6, 3, 7, 1, 6, 10, 7, 9}));
  EXPECT_EQ(Parents(MakeTrees(OneChannel(Pattern::kSplitTree), 4)[0]),
            (std::vector<int>{1, -1, 0, 4, 6, 3, 7, 0, 6, 10, 6, 9}));
}

TEST(TreesTest, TheSecondHalfOfTheChannelsIsMirrored) {
  const std::vector<Tree> trees = MakeTrees(OneChannel(Pattern::kTree), 2);
  ASSERT_EQ(trees.size(), 2u);
  EXPECT_EQ(Parents(trees[0]), (std::vector<int>{1, -1, 0, 4, 1, 3}));
  EXPECT_EQ(Parents(trees[1]), (std::vector<int>{1, 4, 0, 4, -1, 3}));
}

TEST(TreesTest, OneGpuANodeHoldsAllItsChildren) {
  Graph graph = OneChannel(Pattern::kBalancedTree);
  graph.paths[0].gpus = {0};
  EXPECT_EQ(Parents(MakeTrees(graph, 4)[0]), (std::vector<int>{-1, 2, 0, 2}));
}

// 8 GPUs: 7 steps down the chain; 4 nodes: 2 levels.
TEST(TreesTest, Depth) {
  EXPECT_EQ(TreeDepth(8, 1), 7);
  EXPECT_EQ(TreeDepth(8, 4), 9);
  EXPECT_EQ(TreeDepth(1, 6), 2);
}

RC_GTEST_PROP(TreesProperty, EveryChannelIsATree, ()) {
  const int gpus = *rc::gen::inRange(1, 9);
  const int nodes = *rc::gen::inRange(1, 9);
  const Graphs graphs = FindGraphs(DgxH100(gpus), nodes, Version::kV230);
  const std::vector<Tree> trees = MakeTrees(graphs.tree, nodes);
  RC_ASSERT(static_cast<int>(trees.size()) == 2 * graphs.tree.channels);
  for (const Tree& tree : trees) {
    int roots = 0;
    for (std::size_t rank = 0; rank < tree.ranks.size(); ++rank) {
      const Tree::Links& links = tree.ranks[rank];
      RC_ASSERT(links.children.size() <= 3u);
      roots += links.parent == -1;
      std::size_t steps = 0;
      for (int up = links.parent; up != -1; up = tree.ranks[static_cast<std::size_t>(up)].parent) {
        RC_ASSERT(++steps < tree.ranks.size());
      }
    }
    RC_ASSERT(roots == 1);
  }
}

}  // namespace
}  // namespace stepcast::nccl
