// Boost's own reader of DOT, the one that needs no library.
#define BOOST_GRAPH_USE_SPIRIT_PARSER
#include "src/topology/draw.h"

#include <map>
#include <sstream>

#include "boost/graph/adjacency_list.hpp"
#include "boost/graph/graphviz.hpp"
#include "gtest/gtest.h"
#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::topology {
namespace {

TEST(DrawText, ShowsNodeLinksFabricAndRings) {
  EXPECT_EQ(DrawText(Cluster(PcieNode(), OneSwitch(), 2)),
            R"(2 nodes x 4 sample (80 GiB), 8 ranks

Node: 4 gpu, 2 pcie_switch, 2 cpu, 1 nic
  cpu0
  +- pcie_switch0
     +- gpu[0..1]
     +- nic[0]
  cpu1
  +- pcie_switch1
     +- gpu[2..3]

Links inside a node, in each direction
  kind              from               to                 pairs  links of a pair  latency  bandwidth of a pair
  pcie              gpu[0..3]          pcie_switch[0..1]      4      1 x 32 GB/s   200 ns              32 GB/s
  pcie              nic[0]             pcie_switch[0]         1      1 x 32 GB/s   200 ns              32 GB/s
  pcie              pcie_switch[0..1]  cpu[0..1]              2      1 x 32 GB/s   200 ns              32 GB/s
  cpu-interconnect  cpu[0]             cpu[1]                 1      1 x 16 GB/s   300 ns              16 GB/s

Fabric: one-switch, non-blocking
  from  to    links  latency  bandwidth
  nic   leaf      2   400 ns    50 GB/s

Raw bandwidth of rings in each direction, as a sum over all channels
  ranks                 hop in node  bandwidth  hop between nodes  bandwidth  ring bandwidth of a rank
  4 of one node             1.10 us    16 GB/s                  -          -                   16 GB/s
  1 of each of 2 nodes            -          -            1.60 us    32 GB/s                   32 GB/s
  8 of 2 nodes              1.10 us    16 GB/s            1.60 us    32 GB/s                   16 GB/s
)");
}

TEST(DrawText, CountsTheFabricsSwitches) {
  const std::string rails = DrawText(Cluster(SwitchedNode(), Rails(), 4));
  EXPECT_NE(rails.find("Fabric: rail-optimised, 16 leaves (8 rails, units of 2 nodes), 2 spines\n"),
            std::string::npos)
      << rails;
  EXPECT_NE(rails.find("  leaf  spine     32   300 ns    50 GB/s\n"), std::string::npos) << rails;
  const std::string tree = DrawText(Cluster(SwitchedNode(), FatTree(4), 4));
  EXPECT_NE(tree.find("Fabric: fat-tree, 2 leaves (2 nodes each), 4 spines, oversubscription 4\n"),
            std::string::npos)
      << tree;
}

TEST(DrawText, ShowsAFlatCluster) {
  FlatCluster flat;
  flat.devices = 4;
  flat.memory = GiB(80);
  EXPECT_EQ(DrawText(Cluster(flat)),
            "Flat cluster: 4 devices. Each device is a node, and one non-blocking switch connects "
            "all nodes\n"
            "  gpu     none: only layer lists can be simulated\n"
            "  memory  80 GiB\n"
            "  link    none: the times of collectives come from tables\n");
}

// The drawing as a DOT parser sees it: devices by label, and the number of edges.
struct Parsed {
  std::map<std::string, int> devices;
  std::size_t edges = 0;
  std::map<std::string, int> links;
};

Parsed Parse(const std::string& dot) {
  struct Vertex {
    std::string id;
    std::string label;
    std::string fill;
  };
  struct Edge {
    std::string label;
    std::string color;
  };
  boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Vertex, Edge> graph;
  boost::dynamic_properties properties(boost::ignore_other_properties);
  properties.property("node_id", boost::get(&Vertex::id, graph));
  properties.property("label", boost::get(&Vertex::label, graph));
  properties.property("label", boost::get(&Edge::label, graph));
  std::istringstream text(dot);
  EXPECT_TRUE(boost::read_graphviz(text, graph, properties)) << dot.substr(0, 400);
  Parsed parsed;
  for (auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    ++parsed.devices[graph[vertex].label];
  }
  for (auto edge : boost::make_iterator_range(boost::edges(graph))) {
    ++parsed.links[graph[edge].label];
  }
  parsed.edges = boost::num_edges(graph);
  return parsed;
}

TEST(DrawDot, IsDotAndHasEveryDeviceAndLinkOnce) {
  const Parsed parsed = Parse(DrawDot(Cluster(SwitchedNode(), Rails(), 3)));
  // 3 nodes of 26 devices, 16 leaves (two units of 8 rails), 2 spines.
  EXPECT_EQ(parsed.devices.size(), 3u * 26 + 16 + 2);
  EXPECT_EQ(parsed.devices.at("node2/gpu7"), 1);
  EXPECT_EQ(parsed.devices.at("leaf15"), 1);
  // 53 links in a node and 8 ports, 32 uplinks.
  EXPECT_EQ(parsed.edges, 3u * (53 + 8) + 32);
  EXPECT_EQ(parsed.links.at("5 links, 125 GB/s, 250 ns"), 3 * 16);
  EXPECT_EQ(parsed.links.at("22 GB/s, 200 ns"), 3);
}

TEST(DrawDot, DrawsAFlatClusterAsAStar) {
  FlatCluster flat;
  flat.devices = 5;
  flat.memory = GiB(1);
  flat.link = LinkSpec{Microseconds(5), Bandwidth::GigabytesPerSecond(25)};
  const Parsed parsed = Parse(DrawDot(Cluster(flat)));
  EXPECT_EQ(parsed.devices.size(), 6u);
  EXPECT_EQ(parsed.edges, 5u);
  EXPECT_EQ(parsed.links.at("25 GB/s, 5 us"), 5);
}

}  // namespace
}  // namespace stepcast::topology
