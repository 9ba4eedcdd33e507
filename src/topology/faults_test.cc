#include "src/topology/faults.h"

#include <functional>

#include "gtest/gtest.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::topology {
namespace {

std::vector<std::string> Fields(const std::vector<Fault>& faults) {
  std::vector<std::string> fields;
  for (const Fault& fault : faults) fields.push_back(fault.field);
  return fields;
}

TEST(FaultsOf, FindsNoneInWhatCanBeBuilt) {
  for (const NodeType& node : {SwitchedNode(), PcieNode(), CubeMeshNode()}) {
    for (const Fabric& fabric : {OneSwitch(), Rails(), FatTree(4)}) {
      EXPECT_TRUE(FaultsOf(node, fabric, 16).empty()) << node.name;
    }
    EXPECT_TRUE(FaultsOf(node, std::nullopt, 1).empty()) << node.name;
  }
  EXPECT_TRUE(FaultsOf(MeshNode(8), std::nullopt, 1).empty());
}

// A sound description with one change, and the fields that are then at fault.
struct Case {
  const char* name;
  std::function<void(NodeType&, Fabric&, int&)> change;
  std::vector<std::string> fields;
};

TEST(FaultsOf, NamesTheField) {
  const std::vector<Case> cases = {
      {"no GPU",
       [](NodeType& n, Fabric&, int&) { n.devices[0] = 0; },
       // The links to GPUs name devices that are not there, either.
       {"node.devices.gpu", "node.links[0].from", "node.links[1].from", "node.links[2].from"}},
      {"too many NICs",
       [](NodeType& n, Fabric&, int&) { n.devices[4] = 2000; },
       {"node.devices.nic"}},
      {"no node", [](NodeType&, Fabric&, int& nodes) { nodes = 0; }, {"nodes"}},
      {"too many ranks", [](NodeType&, Fabric&, int& nodes) { nodes = 200'000; }, {"nodes"}},
      {"no such switch",
       [](NodeType& n, Fabric&, int&) { n.links[0].to.indices = {4}; },
       {"node.links[0].to"}},
      {"a GPU twice",
       [](NodeType& n, Fabric&, int&) { n.links[2].from.indices[1] = 0; },
       {"node.links[2].from"}},
      {"a link to nothing",
       [](NodeType& n, Fabric&, int&) { n.links[2].to.indices.clear(); },
       {"node.links[2].to"}},
      {"no bandwidth",
       [](NodeType& n, Fabric&, int&) { n.links[3].link.bandwidth = Bandwidth(); },
       {"node.links[3].bandwidth"}},
      {"too much bandwidth",
       [](NodeType& n, Fabric&, int&) {
         n.links[3].link.bandwidth = Bandwidth::GigabytesPerSecond(2'000'000);
       },
       {"node.links[3].bandwidth"}},
      {"a slow link",
       [](NodeType& n, Fabric&, int&) { n.links[3].link.latency = Seconds(2); },
       {"node.links[3].latency"}},
      {"no parallel links",
       [](NodeType& n, Fabric&, int&) { n.links[0].count = 0; },
       {"node.links[0].count"}},
      {"8 GPUs over 3 switches",
       [](NodeType& n, Fabric&, int&) {
         n.links[2].to.indices = {0, 1, 2};
       },
       {"node.links[2].join"}},
      {"a CPU with itself",
       [](NodeType& n, Fabric&, int&) { n.links[5].to.indices = {0}; },
       {"node.links[5]"}},
      {"a GPU in a part of its own",
       [](NodeType& n, Fabric&, int&) {
         for (int i : {0, 1}) n.links[static_cast<std::size_t>(i)].from.indices.pop_back();
         n.links[2] = Rule(LinkKind::kPcie, Devices(DeviceKind::kGpu, 0, 4),
                           Devices(DeviceKind::kPcieSwitch, 0, 4), Join::kInOrder, 1, 150, 64);
       },
       {"node.links"}},
      {"no spine", [](NodeType&, Fabric& f, int&) { f.spines = 0; }, {"fabric.spines"}},
      {"an empty unit",
       [](NodeType&, Fabric& f, int&) { f.nodes_per_unit = 0; },
       {"fabric.nodes_per_unit"}},
      {"no rail", [](NodeType&, Fabric& f, int&) { f.rails = 0; }, {"fabric.rails"}},
      {"dead uplinks",
       [](NodeType&, Fabric& f, int&) { f.uplink.bandwidth = Bandwidth(); },
       {"fabric.uplink.bandwidth"}},
      {"dead ports",
       [](NodeType&, Fabric& f, int&) { f.link.bandwidth = Bandwidth(); },
       {"fabric.link.bandwidth"}},
      {"a fat tree too thin",
       [](NodeType&, Fabric& f, int&) {
         f.kind = FabricKind::kFatTree;
         f.oversubscription = 0;
       },
       {"fabric.oversubscription"}},
  };
  for (const Case& test : cases) {
    NodeType node = SwitchedNode();
    Fabric fabric = Rails();
    int nodes = 2;
    test.change(node, fabric, nodes);
    EXPECT_EQ(Fields(FaultsOf(node, fabric, nodes)), test.fields) << test.name;
  }
}

TEST(FaultsOf, SeveralNodesNeedAFabricAndNics) {
  EXPECT_EQ(Fields(FaultsOf(SwitchedNode(), std::nullopt, 2)),
            (std::vector<std::string>{"fabric"}));
  EXPECT_EQ(Fields(FaultsOf(MeshNode(4), OneSwitch(), 2)),
            (std::vector<std::string>{"node.devices.nic"}));
  EXPECT_TRUE(FaultsOf(MeshNode(4), OneSwitch(), 1).empty());
}

// GPU 0 - GPU 1 - GPU 2 in a row: the only path from 0 to 2 leads through 1.
TEST(FaultsOf, GpusDoNotForward) {
  NodeType node;
  node.devices = {3, 0, 0, 0, 0};
  node.links = {Rule(LinkKind::kNvLink, {DeviceKind::kGpu, {0, 1}}, {DeviceKind::kGpu, {1, 2}},
                     Join::kInOrder, 1, 100, 50)};
  const std::vector<Fault> faults = FaultsOf(node, std::nullopt, 1);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_NE(faults[0].message.find("from gpu0 to gpu2"), std::string::npos);
}

// A NIC linked to GPU 0 alone: fine for one node, but GPU 1 has no route out of it.
TEST(FaultsOf, EveryGpuNeedsAWayToANic) {
  NodeType node;
  node.devices = {2, 0, 0, 0, 1};
  node.links = {Rule(LinkKind::kNvLink, {DeviceKind::kGpu, {0}}, {DeviceKind::kGpu, {1}},
                     Join::kInOrder, 1, 100, 50),
                Rule(LinkKind::kPcie, {DeviceKind::kGpu, {0}}, {DeviceKind::kNic, {0}},
                     Join::kInOrder, 1, 100, 50)};
  EXPECT_TRUE(FaultsOf(node, OneSwitch(), 1).empty());
  const std::vector<Fault> faults = FaultsOf(node, OneSwitch(), 2);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].message, "every route from gpu1 to a NIC passes through another GPU");
}

// A short rule can describe many links: 3 x 1000 x 1000 pairs must not be built.
TEST(FaultsOf, BoundsTheLinksOfANode) {
  NodeType node;
  node.devices = {1000, 1000, 0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    node.links.push_back(Rule(LinkKind::kNvLink, Devices(DeviceKind::kGpu, 0, 1000),
                              Devices(DeviceKind::kNvSwitch, 0, 1000), Join::kAllToAll, 1, 100,
                              50));
  }
  EXPECT_EQ(Fields(FaultsOf(node, std::nullopt, 1)), (std::vector<std::string>{"node.links[0]"}));
}

TEST(FaultsOf, ChecksFlatClusters) {
  FlatCluster flat;
  flat.devices = 4;
  flat.memory = GiB(80);
  EXPECT_TRUE(FaultsOf(flat).empty());
  flat.link = LinkSpec{Seconds(3), Bandwidth()};
  flat.memory = Bytes();
  flat.devices = 0;
  EXPECT_EQ(Fields(FaultsOf(flat)),
            (std::vector<std::string>{"devices", "memory", "link.bandwidth", "link.latency"}));
}

}  // namespace
}  // namespace stepcast::topology
