#include "src/topology/cluster.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "boost/graph/adjacency_list.hpp"
#include "boost/graph/dijkstra_shortest_paths.hpp"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/topology/faults.h"
#include "src/topology/graph.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::topology {
namespace {

std::vector<int> RankRange(int first, int count, int stride = 1) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

bool Same(const CommunicationPath& a, const CommunicationPath& b) {
  return a.ranks == b.ranks && a.nodes == b.nodes && a.ranks_per_node == b.ranks_per_node &&
         a.intra_latency == b.intra_latency && a.inter_latency == b.inter_latency &&
         a.intra_bandwidth == b.intra_bandwidth && a.inter_bandwidth == b.inter_bandwidth &&
         a.ring_bandwidth == b.ring_bandwidth && a.intra_is_nvlink == b.intra_is_nvlink &&
         a.flat == b.flat;
}

TEST(PathOf, OneRankHasNothingToCross) {
  const Cluster cluster(SwitchedNode(), OneSwitch(), 2);
  const CommunicationPath path = cluster.PathOf(RankRange(5, 1));
  EXPECT_EQ(path.ranks, 1);
  EXPECT_EQ(path.nodes, 1);
  EXPECT_EQ(path.ranks_per_node, 1);
  EXPECT_EQ(path.intra_latency, Time());
  EXPECT_EQ(path.inter_latency, Time());
  EXPECT_EQ(path.ring_bandwidth, Bandwidth());
  EXPECT_FALSE(path.intra_is_nvlink);
}

TEST(PathOf, StaysInsideANode) {
  const Cluster cluster(SwitchedNode(), std::nullopt, 1);
  const CommunicationPath path = cluster.PathOf(RankRange(0, 8));
  EXPECT_EQ(path.ranks_per_node, 8);
  EXPECT_EQ(path.intra_bandwidth, Bandwidth::GigabytesPerSecond(450));
  EXPECT_EQ(path.ring_bandwidth, Bandwidth::GigabytesPerSecond(450));
  EXPECT_EQ(path.inter_bandwidth, Bandwidth());
  EXPECT_EQ(path.intra_latency, Nanoseconds(500));
  EXPECT_TRUE(path.intra_is_nvlink);
}

// Leaves of two nodes under 4 spines, each with as many NICs below as it has uplinks' worth of
// bandwidth. If every other node is the group's, all 16 NICs of a leaf's sibling rings leave it;
// otherwise only the 8 NICs of one node do.
TEST(PathOf, HashedConnectionsMeet) {
  Fabric fabric = FatTree(1);
  fabric.spines = 16;
  SetOversubscription(fabric, 8, 1);  // uplinks as wide as NICs
  const auto path = [&](RouteChoice choice, std::vector<int> ranks, int connections = 2) {
    fabric.routing.choice = choice;
    fabric.connections = connections;
    return Cluster(SwitchedNode(), fabric, 64).PathOf(ranks).inter_bandwidth.gigabytes_per_second();
  };
  using enum RouteChoice;
  const std::vector<int> one_leaf = RankRange(0, 16), all = RankRange(0, 512);
  EXPECT_EQ(path(kEcmp, one_leaf), path(kAdaptive, one_leaf));
  EXPECT_EQ(path(kStatic, all), path(kAdaptive, all));
  // 16 connections of half a NIC's rate each over 16 uplinks of 32 leaves.
  const std::array leaves = {HashedLeaves{.leaves = 32, .connections = 16}};
  EXPECT_NEAR(path(kEcmp, all), 400 / ExpectedSlowdown(leaves, 16, 0.5), 1e-6);
  EXPECT_LT(path(kEcmp, all), 0.5 * path(kAdaptive, all));
  // The more connections, the more evenly they spread.
  EXPECT_GT(path(kEcmp, all, 8), path(kEcmp, all, 2));
  EXPECT_LT(path(kEcmp, all, 1), path(kEcmp, all, 2));
  // Every other node: its siblings leave, too.
  std::vector<int> strided;
  for (int node = 0; node < 64; node += 2) strided.push_back(8 * node);
  EXPECT_LT(path(kEcmp, strided) / path(kAdaptive, strided),
            path(kEcmp, all) / path(kAdaptive, all));
  // More nodes are never faster.
  double last = path(kEcmp, RankRange(0, 32));
  for (int nodes = 6; nodes <= 64; nodes += 2) {
    const double now = path(kEcmp, RankRange(0, 8 * nodes));
    EXPECT_LE(now, last) << nodes << " nodes";
    last = now;
  }
}

// 8 NICs of 50 GB/s. GPU, PCIe switch, NIC 300 ns; two ports 800 ns; NIC, PCIe switch, GPU 300 ns.
TEST(PathOf, UsesAllNicsBetweenNodes) {
  const Cluster cluster(SwitchedNode(), OneSwitch(), 4);
  for (int nodes : {2, 3, 4}) {
    const CommunicationPath path = cluster.PathOf(RankRange(0, 8 * nodes));
    EXPECT_EQ(path.nodes, nodes);
    EXPECT_EQ(path.inter_bandwidth, Bandwidth::GigabytesPerSecond(400));
    EXPECT_EQ(path.intra_bandwidth, Bandwidth::GigabytesPerSecond(450));
    EXPECT_EQ(path.ring_bandwidth, Bandwidth::GigabytesPerSecond(400));
    EXPECT_EQ(path.inter_latency, Nanoseconds(1400));
  }
}

TEST(PathOf, AGpuAloneInItsNodeHasItsOwnNic) {
  const Cluster cluster(SwitchedNode(), OneSwitch(), 4);
  const CommunicationPath path = cluster.PathOf(RankRange(3, 4, 8));
  EXPECT_EQ(path.ranks_per_node, 1);
  EXPECT_EQ(path.inter_bandwidth, Bandwidth::GigabytesPerSecond(50));
  EXPECT_EQ(path.ring_bandwidth, Bandwidth::GigabytesPerSecond(50));
  EXPECT_EQ(path.intra_bandwidth, Bandwidth());
  // Two GPUs a node, two NICs.
  const std::vector<int> two = {0, 1, 8, 9};
  EXPECT_EQ(cluster.PathOf(two).inter_bandwidth, Bandwidth::GigabytesPerSecond(100));
}

// Node 0 has 8 ranks; node 1 has only 2, and so 2 NICs: 8 channels share them, 2 x 50 GB/s in all.
// GPU 1 of node 0 forwards four of the channels, but its 450 GB/s is not the limit.
TEST(PathOf, TheSmallestNodeBindsAnUnevenGroup) {
  const Cluster cluster(SwitchedNode(), OneSwitch(), 2);
  const CommunicationPath path = cluster.PathOf(RankRange(0, 10));
  EXPECT_EQ(path.nodes, 2);
  EXPECT_EQ(path.ranks_per_node, 8);
  EXPECT_EQ(path.inter_bandwidth, Bandwidth::GigabytesPerSecond(100));
}

// Rails in units of 2 nodes. Inside a unit each rail is separate. Between units, traffic crosses 2
// spines; two nodes share the 2 x 50 GB/s of each leaf, so each rail gets 50 GB/s, its port's rate.
TEST(PathOf, RailsKeepTheirBandwidthAcrossUnits) {
  const Cluster cluster(SwitchedNode(), Rails(), 4);
  const CommunicationPath within = cluster.PathOf(RankRange(0, 16));
  EXPECT_EQ(within.inter_latency, Nanoseconds(1400));
  EXPECT_EQ(within.inter_bandwidth, Bandwidth::GigabytesPerSecond(400));
  const CommunicationPath across = cluster.PathOf(RankRange(0, 32));
  EXPECT_EQ(across.inter_latency, Nanoseconds(2000));
  EXPECT_EQ(across.inter_bandwidth, Bandwidth::GigabytesPerSecond(400));
}

// Rank 0 of node 0 and rank 1 of node 1 sit on different rails: they meet in a spine although
// their nodes share a unit.
TEST(PathOf, DifferentRailsMeetInASpine) {
  const Cluster cluster(SwitchedNode(), Rails(), 2);
  const std::vector<int> same = {0, 8};
  const std::vector<int> other = {0, 9};
  EXPECT_EQ(cluster.PathOf(same).inter_latency, Nanoseconds(1400));
  EXPECT_EQ(cluster.PathOf(other).inter_latency, Nanoseconds(2000));
}

// Oversubscription 4: nodes 0 and 1 share a leaf and lose nothing. Beyond the leaf, a node gets 400
// / 4 GB/s of the uplinks.
TEST(PathOf, AnOversubscribedFatTreeDividesWhatLeavesALeaf) {
  const Cluster thin(SwitchedNode(), FatTree(4), 4);
  EXPECT_EQ(thin.PathOf(RankRange(0, 16)).inter_bandwidth, Bandwidth::GigabytesPerSecond(400));
  EXPECT_EQ(thin.PathOf(RankRange(0, 32)).inter_bandwidth, Bandwidth::GigabytesPerSecond(100));
  EXPECT_EQ(thin.PathOf(RankRange(0, 32)).ring_bandwidth, Bandwidth::GigabytesPerSecond(100));
  // One GPU of each of two leaves has its node's share to itself: its own NIC is the limit.
  const std::vector<int> alone = {0, 16};
  EXPECT_EQ(thin.PathOf(alone).inter_bandwidth, Bandwidth::GigabytesPerSecond(50));
  const Cluster full(SwitchedNode(), FatTree(1), 4);
  EXPECT_EQ(full.PathOf(RankRange(0, 32)).inter_bandwidth, Bandwidth::GigabytesPerSecond(400));
}

// The CPUs' link, 16 GB/s, binds the node; two nodes have one NIC, to which PCIe leads at 32 GB/s.
TEST(PathOf, PcieNodesAreBoundByTheirCpuLink) {
  const Cluster cluster(PcieNode(), OneSwitch(), 2);
  const CommunicationPath path = cluster.PathOf(RankRange(0, 8));
  EXPECT_EQ(path.intra_bandwidth, Bandwidth::GigabytesPerSecond(16));
  EXPECT_EQ(path.inter_bandwidth, Bandwidth::GigabytesPerSecond(32));
  EXPECT_EQ(path.ring_bandwidth, Bandwidth::GigabytesPerSecond(16));
  EXPECT_FALSE(path.intra_is_nvlink);
}

TEST(PathOf, AFlatClusterIsItsLink) {
  FlatCluster flat;
  flat.devices = 8;
  flat.memory = GiB(80);
  flat.gpu = "h100-sxm";
  flat.link = LinkSpec{Microseconds(5), Bandwidth::GigabytesPerSecond(25)};
  const Cluster cluster(flat);
  EXPECT_EQ(cluster.devices(), 8);
  EXPECT_EQ(cluster.nodes(), 8);
  EXPECT_EQ(cluster.gpus_per_node(), 1);
  const CommunicationPath path = cluster.PathOf(RankRange(2, 4));
  EXPECT_TRUE(path.flat);
  EXPECT_EQ(path.ranks, 4);
  EXPECT_EQ(path.nodes, 4);
  EXPECT_EQ(path.ranks_per_node, 1);
  EXPECT_EQ(path.inter_latency, Microseconds(5));
  EXPECT_EQ(path.inter_bandwidth, Bandwidth::GigabytesPerSecond(25));
  EXPECT_EQ(path.ring_bandwidth, Bandwidth::GigabytesPerSecond(25));
  EXPECT_EQ(cluster.PathOf(RankRange(2, 1)).ring_bandwidth, Bandwidth());
}

TEST(PathOf, ThreadsMayShareACluster) {
  const Cluster cluster(SwitchedNode(), Rails(), 8);
  std::vector<CommunicationPath> paths(16);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      threads.emplace_back([&cluster, &path = paths[i], i] {
        path = cluster.PathOf(RankRange(0, 8 * (1 + static_cast<int>(i) % 8)));
      });
    }
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    EXPECT_TRUE(Same(paths[i], cluster.PathOf(RankRange(0, 8 * (1 + static_cast<int>(i) % 8)))));
  }
}

// A node of random shape: GPUs on NVSwitches, a mesh or PCIe alone, NICs beside them.
NodeType RandomNode() {
  NodeType node;
  node.name = "random";
  const int switches = *rc::gen::inRange(1, 4);
  const int gpus = switches * *rc::gen::inRange(1, 4);
  const int nics = switches * *rc::gen::inRange(1, 3);
  const int cpus = *rc::gen::elementOf(std::vector<int>{1, switches});
  node.devices = {gpus, 0, switches, cpus, nics};
  const auto bandwidth = [] { return *rc::gen::inRange(1, 500); };
  const auto latency = [] { return *rc::gen::inRange(0, 1000); };
  const auto link = [&](LinkKind kind, DeviceKind from, DeviceKind to, Join join) {
    node.links.push_back(Rule(kind, Devices(from, 0, node.Count(from)),
                              Devices(to, 0, node.Count(to)), join, *rc::gen::inRange(1, 4),
                              latency(), bandwidth()));
  };
  link(LinkKind::kPcie, DeviceKind::kGpu, DeviceKind::kPcieSwitch, Join::kInOrder);
  link(LinkKind::kPcie, DeviceKind::kNic, DeviceKind::kPcieSwitch, Join::kInOrder);
  link(LinkKind::kPcie, DeviceKind::kPcieSwitch, DeviceKind::kCpu, Join::kInOrder);
  if (cpus > 1) {
    link(LinkKind::kCpuInterconnect, DeviceKind::kCpu, DeviceKind::kCpu, Join::kAllToAll);
  }
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      node.devices[static_cast<std::size_t>(DeviceKind::kNvSwitch)] = *rc::gen::inRange(1, 4);
      link(LinkKind::kNvLink, DeviceKind::kGpu, DeviceKind::kNvSwitch, Join::kAllToAll);
      break;
    case 1:
      if (gpus > 1) link(LinkKind::kNvLink, DeviceKind::kGpu, DeviceKind::kGpu, Join::kAllToAll);
      break;
    default:
      break;
  }
  return node;
}

Fabric RandomFabric(int nics) {
  Fabric fabric = *rc::gen::elementOf(std::vector<Fabric>{OneSwitch(), Rails(), FatTree(1)});
  fabric.link.bandwidth = Bandwidth::GigabytesPerSecond(*rc::gen::inRange(1, 200));
  fabric.nodes_per_unit = *rc::gen::inRange(1, 4);
  fabric.rails = *rc::gen::inRange(1, nics + 1);
  if (fabric.kind == FabricKind::kFatTree) {
    SetOversubscription(fabric, nics, *rc::gen::inRange(1, 8));
  }
  return fabric;
}

std::vector<int> RandomGroup(int devices) {
  std::vector<int> ranks = RankRange(0, devices);
  std::mt19937 random(static_cast<unsigned>(*rc::gen::inRange(0, 1 << 30)));
  std::shuffle(ranks.begin(), ranks.end(), random);
  ranks.resize(static_cast<std::size_t>(*rc::gen::inRange(1, devices + 1)));
  return ranks;
}

// The most that a set of GPUs can send: a GPU over all its links, a node over all its NICs.
Bandwidth LinksOf(const NodeType& node, int gpu) {
  const Graph graph = BuildNodeGraph(node);
  std::int64_t total = 0;
  for (const Link& link : graph.links[VertexOf(node, DeviceKind::kGpu, gpu)]) {
    total += link.bandwidth.bytes_per_second();
  }
  return Bandwidth::BytesPerSecond(total);
}

// No rank sends faster than all its links together: each GPU forwards everything that goes around
// the ring, and each node everything that leaves it.
RC_GTEST_PROP(PathOfLaws, NoRankSendsFasterThanItsLinks, ()) {
  const NodeType node = RandomNode();
  const Fabric fabric = RandomFabric(node.Count(DeviceKind::kNic));
  const int nodes = *rc::gen::inRange(1, 6);
  RC_ASSERT(FaultsOf(node, fabric, nodes).empty());
  const Cluster cluster(node, fabric, nodes);
  const std::vector<int> ranks = RandomGroup(cluster.devices());
  const CommunicationPath path = cluster.PathOf(ranks);
  RC_ASSERT(path.ranks == static_cast<int>(ranks.size()));
  if (path.ranks == 1) {
    RC_ASSERT(path.ring_bandwidth == Bandwidth());
    return;
  }
  RC_ASSERT(path.ring_bandwidth > Bandwidth());
  for (int rank : ranks) {
    // A byte more for rounding.
    RC_ASSERT(path.ring_bandwidth.bytes_per_second() <=
              LinksOf(node, rank % cluster.gpus_per_node()).bytes_per_second() + 1);
  }
  if (path.nodes > 1) {
    RC_ASSERT(path.inter_bandwidth >= path.ring_bandwidth);
    RC_ASSERT(path.inter_bandwidth.bytes_per_second() <=
              fabric.link.bandwidth.bytes_per_second() * node.Count(DeviceKind::kNic));
    RC_ASSERT(path.inter_latency >= 2 * fabric.link.latency);
  } else {
    RC_ASSERT(path.inter_bandwidth == Bandwidth());
    RC_ASSERT(path.inter_latency == Time());
  }
  if (path.ranks_per_node > 1) {
    RC_ASSERT(path.intra_bandwidth >= path.ring_bandwidth);
  } else {
    RC_ASSERT(path.intra_bandwidth == Bandwidth());
  }
}

// Nodes are alike. Behind one switch, the result depends neither on which node takes which part nor
// on the order of a node's ranks in the group.
RC_GTEST_PROP(PathOfLaws, NodesAreInterchangeable, ()) {
  const NodeType node = RandomNode();
  Fabric fabric = OneSwitch();
  const int nodes = *rc::gen::inRange(1, 6);
  const Cluster cluster(node, fabric, nodes);
  std::vector<int> ranks = RandomGroup(cluster.devices());
  std::sort(ranks.begin(), ranks.end());
  const CommunicationPath path = cluster.PathOf(ranks);

  std::vector<int> to = RankRange(0, nodes);
  std::mt19937 random(static_cast<unsigned>(*rc::gen::inRange(0, 1 << 30)));
  std::shuffle(to.begin(), to.end(), random);
  const int gpus = cluster.gpus_per_node();
  std::vector<int> relabelled;
  for (int rank : ranks) {
    relabelled.push_back(to[static_cast<std::size_t>(rank / gpus)] * gpus + rank % gpus);
  }
  RC_ASSERT(Same(path, cluster.PathOf(relabelled)));

  // Shuffle within nodes, node by node.
  auto first = relabelled.begin();
  while (first != relabelled.end()) {
    const auto last = std::find_if(first, relabelled.end(),
                                   [&](int rank) { return rank / gpus != *first / gpus; });
    std::shuffle(first, last, random);
    first = last;
  }
  RC_ASSERT(Same(path, cluster.PathOf(relabelled)));
}

// PathOf uses one node and arithmetic about the fabric. On the graph of the whole cluster, Boost's
// Dijkstra finds the same distance between two GPUs, each alone in its node.
RC_GTEST_PROP(PathOfLaws, AgreesWithTheGraphOfTheWholeCluster, ()) {
  const NodeType node = RandomNode();
  const Fabric fabric = RandomFabric(node.Count(DeviceKind::kNic));
  const int nodes = *rc::gen::inRange(2, 6);
  const Cluster cluster(node, fabric, nodes);
  // The same GPU of both nodes, so that both use the same rails.
  const int gpu = *rc::gen::inRange(0, cluster.gpus_per_node());
  const int a = *rc::gen::inRange(0, nodes);
  const int b = (a + *rc::gen::inRange(1, nodes)) % nodes;
  const int gpus = cluster.gpus_per_node();
  const std::vector<int> ranks = {a * gpus + gpu, b * gpus + gpu};

  const Graph graph = BuildClusterGraph(node, fabric, nodes);
  const Vertex stride =
      static_cast<Vertex>(std::accumulate(node.devices.begin(), node.devices.end(), 0));
  const Vertex source = static_cast<Vertex>(a) * stride + static_cast<Vertex>(gpu);
  const Vertex target = static_cast<Vertex>(b) * stride + static_cast<Vertex>(gpu);
  struct Weight {
    std::int64_t picoseconds = 0;
  };
  using Weighted =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Weight>;
  Weighted weighted(graph.devices.size());
  for (const std::vector<Link>& leaving : graph.links) {
    for (const Link& link : leaving) {
      if (link.from != source && graph.devices[link.from].kind == DeviceKind::kGpu) continue;
      boost::add_edge(link.from, link.to, Weight{link.latency.picoseconds()}, weighted);
    }
  }
  std::vector<std::int64_t> distance(graph.devices.size());
  boost::dijkstra_shortest_paths(
      weighted, source,
      boost::weight_map(boost::get(&Weight::picoseconds, weighted))
          .distance_map(boost::make_iterator_property_map(
              distance.begin(), boost::get(boost::vertex_index, weighted))));
  RC_ASSERT(cluster.PathOf(ranks).inter_latency == Picoseconds(distance[target]));
}

}  // namespace
}  // namespace stepcast::topology
