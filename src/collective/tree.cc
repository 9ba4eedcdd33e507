#include "src/collective/tree.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "src/base/check.h"

namespace stepcast::collective {
namespace {

// A binary tree in which a node's lowest set bit b gives its height. Its children are at a distance
// of b / 2 on both sides; the right one is nearer if the tree ends before it. Node 0 is above all.
Tree AscendingTree(int n) {
  Tree tree(static_cast<std::size_t>(n));
  const auto adopt = [&tree](int parent, int child) {
    tree[static_cast<std::size_t>(parent)].children.push_back(child);
    tree[static_cast<std::size_t>(child)].parent = parent;
  };
  int top = 1;
  while (top < n) top *= 2;
  if (n > 1) adopt(0, top / 2);
  for (int node = 1; node < n; ++node) {
    const int bit = node & -node;
    if (bit == 1) continue;
    adopt(node, node - bit / 2);
    int offset = bit / 2;
    while (offset > 0 && node + offset >= n) offset /= 2;
    if (offset > 0) adopt(node, node + offset);
  }
  return tree;
}

Tree Renamed(const Tree& tree, const std::function<int(int)>& name) {
  Tree renamed(tree.size());
  for (std::size_t i = 0; i < tree.size(); ++i) {
    TreeNode& node = renamed[static_cast<std::size_t>(name(static_cast<int>(i)))];
    node.parent = tree[i].parent == kNobody ? kNobody : name(tree[i].parent);
    for (const int child : tree[i].children) node.children.push_back(name(child));
  }
  return renamed;
}

}  // namespace

std::array<Tree, 2> DoubleBinaryTree(int n) {
  STEPCAST_CHECK(n > 0, "a tree has a node");
  const Tree tree = AscendingTree(n);
  return {tree, Renamed(tree, [n](int i) { return n % 2 == 0 ? n - 1 - i : (i + 1) % n; })};
}

std::array<Tree, 2> RootedDoubleBinaryTree(int n, int root) {
  STEPCAST_CHECK(root >= 0 && root < n, "the root is a rank");
  const Tree tree = AscendingTree(n);
  // Number 0 remains the root; the other nodes are shifted as in DoubleBinaryTree.
  const auto second = [n](int i) {
    if (i == 0) return 0;
    return n % 2 == 1 ? n - i : i % (n - 1) + 1;
  };
  const auto from_root = [n, root](int i) { return (i + root) % n; };
  return {Renamed(tree, from_root), Renamed(Renamed(tree, second), from_root)};
}

TreeSteps::TreeSteps(Options options)
    : StepList({.algorithm = "tree",
                .kind = options.kind,
                .size = options.size,
                .ranks = options.trees.empty() ? 0 : static_cast<int>(options.trees[0].size()),
                .channels = options.channels,
                .lanes = 2,
                .loops = options.loops,
                .total = options.size}),
      trees_(std::move(options.trees)) {
  STEPCAST_CHECK(kind() == CollectiveKind::kAllReduce || kind() == CollectiveKind::kBroadcast ||
                     kind() == CollectiveKind::kReduce,
                 "a tree supports only reduce, broadcast and all-reduce");
}

const TreeNode& TreeSteps::NodeOf(int worker) const {
  const std::size_t tree = static_cast<std::size_t>(ChannelOf(worker)) % trees_.size();
  return trees_[tree][static_cast<std::size_t>(ParticipantOf(worker))];
}

int TreeSteps::DownLaneOf(const TreeNode& node) const {
  return node.parent == kNobody && kind() == CollectiveKind::kAllReduce ? kUp : kDown;
}

// Receives come first; the last receive and the first send are one step.
std::int64_t TreeSteps::StepsPerLoop(int worker) const {
  const TreeNode& node = NodeOf(worker);
  const auto children = static_cast<std::int64_t>(node.children.size());
  const bool root = node.parent == kNobody;
  const bool up = LaneOf(worker) == kUp;
  const std::int64_t at_least_one = std::max<std::int64_t>(1, children);
  if (kind() == CollectiveKind::kReduce) return up ? at_least_one : 0;
  if (kind() == CollectiveKind::kBroadcast) return up ? 0 : at_least_one;
  if (root) return up ? std::max<std::int64_t>(1, 2 * children - 1) : 0;
  return at_least_one;
}

Step TreeSteps::At(int worker, std::int64_t i) const {
  const TreeNode& node = NodeOf(worker);
  const int channel = ChannelOf(worker);
  const auto children = static_cast<std::int64_t>(node.children.size());
  const bool root = node.parent == kNobody;
  const std::int64_t steps = StepsPerLoop(worker);
  const std::int64_t step = i % steps;
  const auto child = [&](std::int64_t number, int lane) {
    return WorkerOf(channel, node.children[static_cast<std::size_t>(number)], lane);
  };
  Step result{.chunk = {.part = PartOf(channel, i / steps)}};
  if (LaneOf(worker) == kUp) {
    const std::int64_t last_receive = std::max<std::int64_t>(0, children - 1);
    if (step < children) {
      result.receive_from = child(step, kUp);
      result.reduce = true;
    }
    if (step >= last_receive) {
      if (!root) {
        result.send_to = WorkerOf(channel, node.parent, kUp);
      } else {
        result.copy = step == last_receive;
        if (kind() == CollectiveKind::kAllReduce && children > 0) {
          result.send_to = child(step - last_receive, kDown);
        }
      }
    }
  } else {
    if (step == 0 && !root) {
      const std::size_t tree = static_cast<std::size_t>(channel) % trees_.size();
      const TreeNode& parent = trees_[tree][static_cast<std::size_t>(node.parent)];
      result.receive_from = WorkerOf(channel, node.parent, DownLaneOf(parent));
    }
    result.copy = step == 0;
    if (children > 0) result.send_to = child(step, kDown);
  }
  return Sized(result);
}

}  // namespace stepcast::collective
