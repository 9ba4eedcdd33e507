#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/nccl/trees.h"

namespace stepcast::nccl {
namespace {

using Links = NodeTree::Links;

TEST(NodeTreesTest, OneNodeIsItsOwnRoot) {
  const NodeTrees trees = MakeNodeTrees(1);
  EXPECT_EQ(trees.tree0.nodes, std::vector<Links>{Links{}});
  EXPECT_EQ(trees.tree1.nodes, std::vector<Links>{Links{}});
}

// Two nodes: 0 above 1, and mirrored 1 above 0.
TEST(NodeTreesTest, TwoNodes) {
  const NodeTrees trees = MakeNodeTrees(2);
  EXPECT_EQ(trees.tree0.nodes, (std::vector<Links>{{-1, -1, 1}, {0, -1, -1}}));
  EXPECT_EQ(trees.tree1.nodes, (std::vector<Links>{{1, -1, -1}, {-1, -1, 0}}));
}

// Four nodes: 0 - 2 - {1, 3}. Mirrored (r -> 3 - r): 3 - 1 - {2, 0}.
TEST(NodeTreesTest, FourNodes) {
  const NodeTrees trees = MakeNodeTrees(4);
  EXPECT_EQ(trees.tree0.nodes,
            (std::vector<Links>{{-1, -1, 2}, {2, -1, -1}, {0, 1, 3}, {2, -1, -1}}));
  EXPECT_EQ(trees.tree1.nodes,
            (std::vector<Links>{{1, -1, -1}, {3, 2, 0}, {1, -1, -1}, {-1, -1, 1}}));
}

// Five nodes: 0 - 4 - 2 - {1, 3}; 4 has no second child, 4 + 2 and 4 + 1 do not exist. Shifted by
// one: 1 - 0 - 3 - {2, 4}.
TEST(NodeTreesTest, FiveNodes) {
  const NodeTrees trees = MakeNodeTrees(5);
  EXPECT_EQ(trees.tree0.nodes,
            (std::vector<Links>{{-1, -1, 4}, {2, -1, -1}, {4, 1, 3}, {2, -1, -1}, {0, 2, -1}}));
  EXPECT_EQ(trees.tree1.nodes,
            (std::vector<Links>{{1, 3, -1}, {-1, -1, 0}, {3, -1, -1}, {0, 2, 4}, {3, -1, -1}}));
}

// The tree drawn in the header: 12 would have 14 as its second child, and has 13.
TEST(NodeTreesTest, TheSecondChildMovesCloserUntilItExists) {
  const NodeTree tree = MakeNodeTrees(14).tree0;
  EXPECT_EQ(tree.nodes[0], (Links{-1, -1, 8}));
  EXPECT_EQ(tree.nodes[8], (Links{0, 4, 12}));
  EXPECT_EQ(tree.nodes[12], (Links{8, 10, 13}));
  EXPECT_EQ(tree.nodes[13], (Links{12, -1, -1}));
}

int ChildrenOf(const Links& links) { return (links.child0 != -1) + (links.child1 != -1); }

RC_GTEST_PROP(NodeTreesProperty, BothAreTreesAndNobodyIsAnInnerNodeTwice, ()) {
  const int nodes = *rc::gen::inRange(1, 300);
  const NodeTrees trees = MakeNodeTrees(nodes);
  for (const NodeTree* tree : {&trees.tree0, &trees.tree1}) {
    RC_ASSERT(static_cast<int>(tree->nodes.size()) == nodes);
    const int root = tree->root();
    for (int node = 0; node < nodes; ++node) {
      const Links& links = tree->nodes[static_cast<std::size_t>(node)];
      for (int child : {links.child0, links.child1}) {
        if (child != -1) RC_ASSERT(tree->nodes[static_cast<std::size_t>(child)].parent == node);
      }
      if (node != root) {
        const Links& above = tree->nodes[static_cast<std::size_t>(links.parent)];
        RC_ASSERT(above.child0 == node || above.child1 == node);
        RC_ASSERT(tree->IsChild0(node) == (above.child0 == node));
      }
      // Every way up ends at the root.
      int steps = 0;
      for (int up = node; up != root; up = tree->nodes[static_cast<std::size_t>(up)].parent) {
        RC_ASSERT(++steps < nodes);
      }
    }
  }
  for (int node = 0; node < nodes; ++node) {
    const auto i = static_cast<std::size_t>(node);
    const int children0 = ChildrenOf(trees.tree0.nodes[i]);
    const int children1 = ChildrenOf(trees.tree1.nodes[i]);
    RC_ASSERT(children0 + children1 <= 2);
    const bool twice = children0 > 0 && children1 > 0;
    RC_ASSERT(!twice || (node == 0 && nodes % 2 == 1));
  }
}

}  // namespace
}  // namespace stepcast::nccl
