#include "src/topology/graph.h"

#include <map>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "src/topology/sample_nodes.h"

namespace stepcast::topology {
namespace {

TEST(BuildNodeGraph, HasEveryDeviceAndEveryLinkBothWays) {
  const NodeType node = SwitchedNode();
  const Graph graph = BuildNodeGraph(node);
  EXPECT_EQ(boost::num_vertices(graph), 8u + 4 + 4 + 2 + 8);
  // 8 x 4 NVLink, 8 + 8 + 4 PCIe, 1 between the CPUs: 53 links.
  EXPECT_EQ(boost::num_edges(graph), 2u * 53);
  EXPECT_EQ(Name(graph[VertexOf(node, DeviceKind::kNic, 7)]), "node0/nic7");

  std::map<int, Edge> by_id;
  for (const Edge& edge : boost::make_iterator_range(boost::edges(graph))) {
    EXPECT_TRUE(by_id.emplace(graph[edge].id, edge).second) << "ids are distinct";
  }
  for (const auto& [id, edge] : by_id) {
    const Edge back = by_id.at(id ^ 1);
    EXPECT_EQ(boost::source(edge, graph), boost::target(back, graph));
    EXPECT_EQ(boost::target(edge, graph), boost::source(back, graph));
    EXPECT_EQ(graph[edge].bandwidth, graph[back].bandwidth);
  }
}

TEST(BuildNodeGraph, AddsUpParallelLinks) {
  const NodeType node = SwitchedNode();
  const Graph graph = BuildNodeGraph(node);
  const auto [edge, found] = boost::edge(VertexOf(node, DeviceKind::kGpu, 2),
                                         VertexOf(node, DeviceKind::kNvSwitch, 3), graph);
  ASSERT_TRUE(found);
  EXPECT_EQ(graph[edge].count, 5);
  EXPECT_EQ(graph[edge].bandwidth, Bandwidth::GigabytesPerSecond(125));
  EXPECT_EQ(graph[edge].latency, Nanoseconds(250));
}

TEST(BuildClusterGraph, HangsRailsOnTheirLeaves) {
  const NodeType node = SwitchedNode();
  const Graph graph = BuildClusterGraph(node, Rails(), 3);
  // 3 nodes in units of 2 make 2 units of 8 leaves; 2 spines.
  EXPECT_EQ(boost::num_vertices(graph), 3u * 26 + 16 + 2);
  // 53 links in a node, 8 NIC ports each, 16 leaves with 2 uplinks.
  EXPECT_EQ(boost::num_edges(graph), 2u * (3 * (53 + 8) + 32));
  // NIC 5 of node 2 is in the second unit: leaf 8 + 5.
  const Vertex nic = 2 * 26 + VertexOf(node, DeviceKind::kNic, 5);
  std::set<std::string> neighbours;
  for (const Edge& edge : boost::make_iterator_range(boost::out_edges(nic, graph))) {
    neighbours.insert(Name(graph[boost::target(edge, graph)]));
  }
  EXPECT_EQ(neighbours, (std::set<std::string>{"leaf13", "node2/pcie_switch2"}));
}

TEST(LeafOf, FollowsTheFabric) {
  EXPECT_EQ(LeafOf(OneSwitch(), 5, 3), 0);
  EXPECT_EQ(LeafCount(OneSwitch(), 5), 1);
  EXPECT_EQ(LeafOf(FatTree(1), 5, 3), 2);  // nodes 4 and 5 share leaf 2
  EXPECT_EQ(LeafCount(FatTree(1), 5), 3);
  Fabric rails = Rails();
  rails.rails = 4;  // NICs 1 and 5 share a leaf
  EXPECT_EQ(LeafOf(rails, 0, 5), 1);
  EXPECT_EQ(LeafOf(rails, 3, 5), 5);
  EXPECT_EQ(LeafCount(rails, 3), 8);
}

}  // namespace
}  // namespace stepcast::topology
