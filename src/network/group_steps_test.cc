#include "src/network/group_steps.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "gtest/gtest.h"
#include "src/network/traffic.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::network {
namespace {

using topology::Cluster;

constexpr Bytes kSize = GiB(4);

std::vector<int> Ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

struct Rates {
  std::string_view algorithm;
  double gigabytes = 0;  // bytes of the buffer over the time that links are busy
};

Rates RatesOf(const Cluster& cluster, const std::vector<int>& ranks, std::string_view algorithm,
              CollectiveKind kind = CollectiveKind::kAllReduce) {
  const ClusterNetwork network = NetworkOf(cluster).value();
  const PlacedSteps steps = GroupSteps(network).Make(ranks, algorithm, kind, kSize);
  const auto traffic = Traffic::Make(*steps.list, network.network, steps.places);
  if (!traffic) {
    ADD_FAILURE() << traffic.error().message;
    return {};
  }
  return {steps.list->algorithm(),
          static_cast<double>(kSize.count()) / traffic->transfer().seconds() * 1e-9};
}

// All-reduce sends 2 (N - 1) / N of the buffer over the bandwidth that the price assumes for a
// ring.
void ExpectTheRingsBandwidth(const Cluster& cluster) {
  const std::vector<int> ranks = Ranks(cluster.devices());
  const double n = cluster.devices();
  const double priced = cluster.PathOf(ranks).ring_bandwidth.gigabytes_per_second();
  EXPECT_GT(RatesOf(cluster, ranks, "ring").gigabytes, 0.999 * priced * n / (2 * (n - 1)));
}

TEST(GroupStepsTest, RingsUseTheLinksThatPricesCountOn) {
  ExpectTheRingsBandwidth(Cluster(topology::SwitchedNode(), std::nullopt, 1));
  ExpectTheRingsBandwidth(Cluster(topology::CubeMeshNode(), std::nullopt, 1));
  ExpectTheRingsBandwidth(Cluster(topology::MeshNode(4), std::nullopt, 1));
  ExpectTheRingsBandwidth(Cluster(topology::MeshNode(5), std::nullopt, 1));
  for (const int nodes : {2, 3, 4, 5}) {
    ExpectTheRingsBandwidth(Cluster(topology::SwitchedNode(), topology::OneSwitch(), nodes));
    ExpectTheRingsBandwidth(Cluster(topology::SwitchedNode(), topology::Rails(), nodes));
    ExpectTheRingsBandwidth(Cluster(topology::SwitchedNode(), topology::FatTree(4), nodes));
  }
}

// The nodes of a cube mesh: four NICs of 16 GB/s are the limit, not the links between processors.
TEST(GroupStepsTest, RingsAndTreesOfSeveralNodesKeepToDirectNvLinks) {
  for (const int nodes : {2, 3, 4}) {
    const Cluster cluster(topology::CubeMeshNode(), topology::OneSwitch(), nodes);
    ExpectTheRingsBandwidth(cluster);
    EXPECT_GT(RatesOf(cluster, Ranks(8 * nodes), "ring").gigabytes, 0.999 * 64 / 2);
    // Two nodes pass S over the NICs, more pass up to 2 S; a pair of trees is cut after its
    // interior nodes' two children.
    EXPECT_GT(RatesOf(cluster, Ranks(8 * nodes), "tree").gigabytes, 0.45 * 64 / 2) << nodes;
  }
  // Six rings of one node, cut open to chains: on each link S/6 up and S/6 down of 25 GB/s.
  const Cluster one(topology::CubeMeshNode(), std::nullopt, 1);
  EXPECT_NEAR(RatesOf(one, Ranks(8), "tree").gigabytes, 25 * 6 / 2.0, 1);
}

// Eight NICs of 50 GB/s, each out and in for one channel: 400 GB/s.
TEST(GroupStepsTest, EveryNicSendsForOneChannel) {
  for (const int nodes : {2, 3}) {
    const Cluster cluster(topology::SwitchedNode(), topology::OneSwitch(), nodes);
    const double n = 8 * nodes;
    EXPECT_NEAR(RatesOf(cluster, Ranks(8 * nodes), "ring").gigabytes, 400 * n / (2 * (n - 1)),
                0.01);
  }
}

// Sixteen trees of S/16. In each chain of eight, the first and last GPU send S/16, the others S/16
// up and S/16 down, and every GPU is twice in each position: 28/16 S over 450 GB/s of NVLink, which
// is longer than S over 400 GB/s of NICs.
TEST(GroupStepsTest, TreesAreChainsInsideNodes) {
  const Cluster cluster(topology::SwitchedNode(), topology::OneSwitch(), 2);
  const Rates tree = RatesOf(cluster, Ranks(16), "tree");
  EXPECT_EQ(tree.algorithm, "tree");
  EXPECT_NEAR(tree.gigabytes, 450 * 16 / 28.0, 0.1);
}

TEST(GroupStepsTest, TakesTheAlgorithmWhereItCanRun) {
  const Cluster one(topology::SwitchedNode(), std::nullopt, 1);
  const Cluster two(topology::SwitchedNode(), topology::OneSwitch(), 2);
  EXPECT_EQ(RatesOf(one, Ranks(8), "nvls").algorithm, "nvls");
  EXPECT_EQ(RatesOf(one, Ranks(8), "nvls", CollectiveKind::kAllGather).algorithm, "nvls");
  EXPECT_NE(RatesOf(two, Ranks(16), "nvls_tree").algorithm, "ring");
  EXPECT_EQ(RatesOf(two, Ranks(16), "collnet_direct").algorithm, "collnet");
  EXPECT_EQ(RatesOf(two, {3, 11}, "pat", CollectiveKind::kAllGather).algorithm, "pat");
  EXPECT_EQ(RatesOf(two, Ranks(16), "pat", CollectiveKind::kAllGather).algorithm, "ring");
  EXPECT_EQ(RatesOf(two, Ranks(16), "table").algorithm, "ring");
  // Ranks 0 to 8: not as many in each node.
  EXPECT_EQ(RatesOf(two, Ranks(9), "nvls_tree").algorithm, "ring");
  EXPECT_GT(RatesOf(two, Ranks(16), "ring", CollectiveKind::kBroadcast).gigabytes, 300);
}

// One GPU of each node, all over the nearest NICs.
TEST(GroupStepsTest, ReplicasKeepToTheirRail) {
  const Cluster cluster(topology::SwitchedNode(), topology::Rails(), 4);
  const Rates rates = RatesOf(cluster, {5, 13, 21, 29}, "ring");
  EXPECT_GE(rates.gigabytes, 50 * 4 / 6.0);
}

using Positions = std::vector<std::size_t>;

Positions All(std::size_t count) {
  Positions positions(count);
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  return positions;
}

std::vector<int> Gpus(int count) {
  std::vector<int> gpus(static_cast<std::size_t>(count));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

// A DGX-1: each GPU has six NVLinks, to four of the others.
TEST(DirectChainsTest, KeepToNvLinksAndToTheirEnds) {
  const topology::NodeRoutes routes(topology::CubeMeshNode());
  const std::vector<int> gpus = Gpus(8);
  DirectChains chains(routes, gpus);
  // From a GPU of the first PCIe switch to one of the second, and so on round.
  std::vector<int> used(64);
  for (std::size_t rail = 0; rail < 4; ++rail) {
    const Positions first = {2 * rail, 2 * rail + 1};
    const Positions last = {(2 * rail + 2) % 8, (2 * rail + 3) % 8};
    const Positions chain = chains.Lay(first, last, /*both_ways=*/false);
    ASSERT_EQ(chain.size(), 8u);
    EXPECT_TRUE(std::count(first.begin(), first.end(), chain.front()) == 1);
    EXPECT_TRUE(std::count(last.begin(), last.end(), chain.back()) == 1);
    Positions sorted = chain;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, All(8));
    for (std::size_t i = 0; i + 1 < 8; ++i) {
      const auto from = static_cast<int>(chain[i]);
      const auto to = static_cast<int>(chain[i + 1]);
      EXPECT_GT(routes.DirectNvLinks(from, to), 0) << from << " to " << to;
      // Four chains find links of their own: every GPU has six.
      EXPECT_LE(++used[chain[i] * 8 + chain[i + 1]], routes.DirectNvLinks(from, to));
    }
  }
}

TEST(DirectChainsTest, ThereAreNoneThroughASwitchOrAGap) {
  const topology::NodeRoutes switched(topology::SwitchedNode());
  const std::vector<int> eight = Gpus(8);
  EXPECT_TRUE(DirectChains(switched, eight).Lay(All(8), All(8), false).empty());
  // GPUs 0 and 5 of a DGX-1 have no link of their own.
  const topology::NodeRoutes mesh(topology::CubeMeshNode());
  const std::vector<int> apart = {0, 5};
  EXPECT_TRUE(DirectChains(mesh, apart).Lay(All(2), All(2), false).empty());
  const std::vector<int> together = {0, 4};
  EXPECT_EQ(DirectChains(mesh, together).Lay(Positions{0}, Positions{1}, true), All(2));
}

}  // namespace

}  // namespace stepcast::network
