#include "src/collective/tree.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::collective {
namespace {

// Follows children from the root. Returns the depth, and checks that every node is reached and
// knows its parent.
int DepthOf(const Tree& tree, int root) {
  std::vector<int> depth(tree.size(), -1);
  std::vector<int> open = {root};
  depth[static_cast<std::size_t>(root)] = 0;
  EXPECT_EQ(tree[static_cast<std::size_t>(root)].parent, kNobody);
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int child : tree[static_cast<std::size_t>(node)].children) {
      EXPECT_EQ(tree[static_cast<std::size_t>(child)].parent, node);
      EXPECT_EQ(depth[static_cast<std::size_t>(child)], -1);
      depth[static_cast<std::size_t>(child)] = depth[static_cast<std::size_t>(node)] + 1;
      open.push_back(child);
    }
  }
  EXPECT_EQ(std::count(depth.begin(), depth.end(), -1), 0);
  return *std::max_element(depth.begin(), depth.end());
}

int RootOf(const Tree& tree) {
  const auto root = std::find_if(tree.begin(), tree.end(),
                                 [](const TreeNode& node) { return node.parent == kNobody; });
  return static_cast<int>(root - tree.begin());
}

// By hand for 6 ranks, from the bits: 4 = 100 is above 2 = 010 and 5, since 6 does not exist; 2 is
// above 1 and 3; 0 is above 4. The other tree is the mirror image.
TEST(DoubleBinaryTree, OfSix) {
  const auto [first, second] = DoubleBinaryTree(6);
  EXPECT_EQ(first[0].children, std::vector<int>({4}));
  EXPECT_EQ(first[4].children, std::vector<int>({2, 5}));
  EXPECT_EQ(first[2].children, std::vector<int>({1, 3}));
  EXPECT_EQ(second[5].children, std::vector<int>({1}));
  EXPECT_EQ(second[1].children, std::vector<int>({3, 0}));
  EXPECT_EQ(second[3].children, std::vector<int>({4, 2}));
}

TEST(DoubleBinaryTree, IsAsDeepAsTheLogarithmAndSharesNoInnerNode) {
  for (int n = 1; n <= 300; ++n) {
    const int depth = std::bit_width(static_cast<unsigned>(n - 1));
    const auto trees = DoubleBinaryTree(n);
    for (const Tree& tree : trees) EXPECT_LE(DepthOf(tree, RootOf(tree)), depth) << n;
    const auto rooted = RootedDoubleBinaryTree(n, n / 3);
    for (const Tree& tree : rooted) EXPECT_LE(DepthOf(tree, n / 3), depth) << n;
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      // A rank with two children in one tree has none in the other.
      EXPECT_LE(trees[0][at].children.size() + trees[1][at].children.size(), 2U) << n << " " << i;
      EXPECT_LE(rooted[0][at].children.size() + rooted[1][at].children.size(), 2U) << n << " " << i;
    }
  }
}

}  // namespace
}  // namespace stepcast::collective
