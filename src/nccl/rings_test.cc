#include "src/nccl/rings.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/nccl/graphs.h"
#include "src/nccl/sample_nodes.h"

namespace stepcast::nccl {
namespace {

Graph TwoChannels(int cross_nic) {
  Graph graph;
  graph.channels = 2;
  graph.cross_nic = cross_nic;
  graph.paths = {{.gpus = {0, 2, 1}, .nic_in = 0, .nic_out = 1},
                 {.gpus = {1, 0, 2}, .nic_in = 1, .nic_out = 0}};
  return graph;
}

TEST(RingsTest, NodesFollowEachOther) {
  const std::vector<Ring> rings = MakeRings(TwoChannels(0), 3);
  ASSERT_EQ(rings.size(), 2u);
  EXPECT_EQ(rings[0].ranks, (std::vector<int>{0, 2, 1, 3, 5, 4, 6, 8, 7}));
  EXPECT_EQ(rings[1].ranks, (std::vector<int>{1, 0, 2, 4, 3, 5, 7, 6, 8}));
}

// Node 1 takes the other channel of the pair: what leaves node 0 by card 1 enters node 1 by card 1.
TEST(RingsTest, OddNodesSwapPairsWhenRingsChangeCards) {
  const std::vector<Ring> rings = MakeRings(TwoChannels(2), 2);
  EXPECT_EQ(rings[0].ranks, (std::vector<int>{0, 2, 1, 4, 3, 5}));
  EXPECT_EQ(rings[0].nic_in, (std::vector<int>{0, 1}));
  EXPECT_EQ(rings[0].nic_out, (std::vector<int>{1, 0}));
}

// Rail-optimised: on eight H100 with a card each, in any even number of nodes, every hop between
// nodes stays on its rail.
TEST(RingsTest, RailsAreKept) {
  const Graphs graphs = FindGraphs(DgxH100(), 4, Version::kV230);
  for (const Ring& ring : MakeRings(graphs.ring, 4)) {
    for (std::size_t node = 0; node < 4; ++node) {
      EXPECT_EQ(ring.nic_out[node], ring.nic_in[(node + 1) % 4]);
    }
  }
}

RC_GTEST_PROP(RingsProperty, EveryRankIsInEveryRingOnce, ()) {
  const int gpus = *rc::gen::inRange(1, 9);
  const int nodes = *rc::gen::inRange(1, 6);
  const Graphs graphs = FindGraphs(DgxH100(gpus), nodes, Version::kV230);
  for (const Ring& ring : MakeRings(graphs.ring, nodes)) {
    std::vector<int> sorted = ring.ranks;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> all(static_cast<std::size_t>(gpus * nodes));
    std::iota(all.begin(), all.end(), 0);
    RC_ASSERT(sorted == all);
  }
}

}  // namespace
}  // namespace stepcast::nccl
