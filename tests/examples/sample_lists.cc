#include "tests/examples/sample_lists.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "src/base/check.h"
#include "src/collective/collnet.h"
#include "src/collective/node_aware.h"
#include "src/collective/nvls.h"
#include "src/collective/pairwise.h"
#include "src/collective/pat.h"
#include "src/collective/ring.h"
#include "src/collective/tree.h"

namespace stepcast::collective {

std::vector<Sample> AllSamples() {
  return {{"ring", CollectiveKind::kAllReduce},    {"ring", CollectiveKind::kReduceScatter},
          {"ring", CollectiveKind::kAllGather},    {"ring", CollectiveKind::kBroadcast},
          {"ring", CollectiveKind::kReduce},       {"tree", CollectiveKind::kAllReduce},
          {"tree", CollectiveKind::kBroadcast},    {"tree", CollectiveKind::kReduce},
          {"nvls", CollectiveKind::kAllReduce},    {"nvls", CollectiveKind::kReduceScatter},
          {"nvls", CollectiveKind::kAllGather},    {"nvls_tree", CollectiveKind::kAllReduce},
          {"collnet", CollectiveKind::kAllReduce}, {"pat", CollectiveKind::kAllGather},
          {"pat", CollectiveKind::kReduceScatter}, {"pairwise", CollectiveKind::kAllToAll},
          {"pairwise", CollectiveKind::kScatter},  {"pairwise", CollectiveKind::kGather},
          {"pairwise", CollectiveKind::kSendRecv}, {"node_aware", CollectiveKind::kAllToAll}};
}

std::unique_ptr<StepList> MakeSample(const Sample& sample, const SampleShape& shape) {
  const auto& [algorithm, kind] = sample;
  const int ranks = shape.nodes * shape.ranks_per_node;
  const int root = shape.root % ranks;
  const Bytes size = shape.size;
  if (algorithm == "ring") {
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::vector<int>> orders;
    std::mt19937 random(shape.seed);
    for (int channel = 0; channel < shape.channels; ++channel) {
      if (shape.seed != 0) std::shuffle(order.begin(), order.end(), random);
      orders.push_back(order);
    }
    if (kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce) {
      return std::make_unique<Chain>(Chain::Options{kind, size, orders, root, shape.loops});
    }
    return std::make_unique<Ring>(Ring::Options{kind, size, orders, shape.loops, shape.slices});
  }
  if (algorithm == "tree") {
    const auto trees = kind == CollectiveKind::kAllReduce ? DoubleBinaryTree(ranks)
                                                          : RootedDoubleBinaryTree(ranks, root);
    return std::make_unique<TreeSteps>(TreeSteps::Options{
        kind, size, {trees.begin(), trees.end()}, 2 * shape.channels, shape.loops});
  }
  if (algorithm == "nvls") {
    return std::make_unique<Nvls>(
        Nvls::Options{kind, size, 1, ranks, {}, shape.channels, shape.loops});
  }
  if (algorithm == "nvls_tree") {
    const auto trees = DoubleBinaryTree(shape.nodes);
    return std::make_unique<Nvls>(Nvls::Options{kind,
                                                size,
                                                shape.nodes,
                                                shape.ranks_per_node,
                                                {trees.begin(), trees.end()},
                                                2 * shape.channels,
                                                shape.loops});
  }
  if (algorithm == "collnet") {
    return std::make_unique<CollNet>(
        CollNet::Options{size, shape.nodes, shape.ranks_per_node, shape.channels, shape.loops});
  }
  if (algorithm == "pat") {
    return std::make_unique<Pat>(Pat::Options{kind, size, ranks, shape.channels, shape.loops});
  }
  if (algorithm == "pairwise") {
    return std::make_unique<Pairwise>(
        Pairwise::Options{kind, size, ranks, root, shape.channels, shape.loops});
  }
  STEPCAST_CHECK(algorithm == "node_aware", "the sample's algorithm exists");
  return std::make_unique<NodeAware>(
      NodeAware::Options{size, shape.nodes, shape.ranks_per_node, shape.channels, shape.loops});
}

}  // namespace stepcast::collective
