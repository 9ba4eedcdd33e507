#include "src/topology/graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::topology {
namespace {

// Directions of links.
std::size_t Links(const Graph& graph) {
  std::size_t links = 0;
  for (const std::vector<Link>& leaving : graph.links) links += leaving.size();
  return links;
}

TEST(BuildNodeGraph, HasEveryDeviceAndEveryLinkBothWays) {
  const NodeType node = SwitchedNode();
  const Graph graph = BuildNodeGraph(node);
  EXPECT_EQ(graph.devices.size(), 8u + 4 + 4 + 2 + 8);
  // 8 x 4 NVLink, 8 + 8 + 4 PCIe, 1 between the CPUs: 53 links.
  EXPECT_EQ(Links(graph), 2u * 53);
  EXPECT_EQ(Name(graph.devices[VertexOf(node, DeviceKind::kNic, 7)]), "node0/nic7");

  std::map<int, Link> by_id;
  for (Vertex vertex = 0; vertex < graph.links.size(); ++vertex) {
    for (const Link& link : graph.links[vertex]) {
      EXPECT_EQ(link.from, vertex);
      EXPECT_TRUE(by_id.emplace(link.id, link).second) << "ids are distinct";
    }
  }
  for (const auto& [id, link] : by_id) {
    const Link& back = by_id.at(id ^ 1);
    EXPECT_EQ(link.from, back.to);
    EXPECT_EQ(link.to, back.from);
    EXPECT_EQ(link.bandwidth, back.bandwidth);
  }
}

TEST(BuildNodeGraph, AddsUpParallelLinks) {
  const NodeType node = SwitchedNode();
  const Graph graph = BuildNodeGraph(node);
  const std::vector<Link>& leaving = graph.links[VertexOf(node, DeviceKind::kGpu, 2)];
  const auto link = std::find_if(leaving.begin(), leaving.end(), [&](const Link& candidate) {
    return candidate.to == VertexOf(node, DeviceKind::kNvSwitch, 3);
  });
  ASSERT_NE(link, leaving.end());
  EXPECT_EQ(link->count, 5);
  EXPECT_EQ(link->bandwidth, Bandwidth::GigabytesPerSecond(125));
  EXPECT_EQ(link->latency, Nanoseconds(250));
}

TEST(BuildClusterGraph, HangsRailsOnTheirLeaves) {
  const NodeType node = SwitchedNode();
  const Graph graph = BuildClusterGraph(node, Rails(), 3);
  // 3 nodes in units of 2 make 2 units of 8 leaves; 2 spines.
  EXPECT_EQ(graph.devices.size(), 3u * 26 + 16 + 2);
  // 53 links in a node, 8 NIC ports each, 16 leaves with 2 uplinks.
  EXPECT_EQ(Links(graph), 2u * (3 * (53 + 8) + 32));
  // NIC 5 of node 2 is in the second unit: leaf 8 + 5.
  const Vertex nic = 2 * 26 + VertexOf(node, DeviceKind::kNic, 5);
  std::set<std::string> neighbours;
  for (const Link& link : graph.links[nic]) neighbours.insert(Name(graph.devices[link.to]));
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
