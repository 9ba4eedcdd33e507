#include "src/nccl/search.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "tests/examples/sample_communicators.h"

namespace stepcast::nccl {
namespace {

std::string Text(const Graph& graph) {
  if (graph.channels == 0) return "none";
  return fmt::format("{}@{}/{} {}/{}", graph.channels, graph.bw_intra, graph.bw_inter,
                     Name(graph.type_intra), Name(graph.type_inter));
}

// Eight A100: 12 NVLinks of 20 make 240, which 6 rings of 40 use up; doubled to 12 of 20. Measured:
// 234.9 GB/s at 16 GiB (stas00/ml-engineering, network/README.md).
TEST(SearchTest, A100) {
  const Graphs graphs = FindGraphs(DgxA100(), 1, Version::kV230);
  EXPECT_EQ(Text(graphs.ring), "12@20/20 NVL/PIX");
  EXPECT_EQ(Text(graphs.tree), "12@20/20 NVL/PIX");
  EXPECT_EQ(Text(graphs.nvls), "none");
  EXPECT_EQ(ComputeChannels(graphs, 1, 80), 24);
  EXPECT_EQ(NvlsChannels(graphs, 1, 80), 0);
}

// Eight H100 or H200: 18 links of 20.6 make 370.8: 6 rings of 60, doubled. NVLS: each of 8 heads
// uses its speed twice on its own links and once on all others, 9 x 40 <= 370.8 < 9 x 50; between
// heads the speed rises to the fastest available. Measured: 367.6 GB/s (the same source).
TEST(SearchTest, H100) {
  const Graphs graphs = FindGraphs(DgxH100(), 1, Version::kV230);
  EXPECT_EQ(Text(graphs.ring), "12@30/30 NVL/PIX");
  EXPECT_EQ(Text(graphs.tree), "12@30/30 NVL/PIX");
  EXPECT_EQ(Text(graphs.nvls), "8@40/60 NVL/PIX");
  EXPECT_EQ(ComputeChannels(graphs, 1, 90), 24);
  EXPECT_EQ(NvlsChannels(graphs, 1, 90), 16);
}

// Eight B200: 18 links of 40.1 make 721.8: 8 rings of 90, doubled; 9 x 80 <= 721.8. Measured 682
// GB/s (the same source).
TEST(SearchTest, B200) {
  const Graphs graphs = FindGraphs(DgxB200(), 1, Version::kV230);
  EXPECT_EQ(Text(graphs.ring), "16@45/45 NVL/PIX");
  EXPECT_EQ(Text(graphs.tree), "16@45/45 NVL/PIX");
  EXPECT_EQ(Text(graphs.nvls), "8@80/90 NVL/PIX");
  EXPECT_EQ(ComputeChannels(graphs, 1, 100), 32);
  EXPECT_EQ(NvlsChannels(graphs, 1, 100), 24);
}

// Before 2.30, trees had no step of 45.
TEST(SearchTest, EarlierReleasesHaveFewerSpeeds) {
  EXPECT_EQ(Text(FindGraphs(DgxB200(), 1, Version::kV228).tree), "16@40/40 NVL/PIX");
}

// Two nodes of eight H200 with a card of 400 Gbit/s each: 50 GB/s, and 48 over PCIe. Eight rings of
// 48 need 7 x 48 = 336 of NVLink. Returning to the same card would need 8 x 48 = 384 > 370.8, so
// they change cards. A published log of such a cluster agrees: 8 channels, bandwidth 48, NVL/PIX,
// crossNic 2.
TEST(SearchTest, H200WithRails) {
  const Graphs graphs = FindGraphs(DgxH100(), 2, Version::kV228);
  EXPECT_EQ(Text(graphs.ring), "8@48/48 NVL/PIX");
  EXPECT_EQ(graphs.ring.cross_nic, 2);
  EXPECT_EQ(Text(graphs.tree), "8@48/48 NVL/PIX");
  EXPECT_EQ(Text(graphs.nvls), "8@40/48 NVL/PIX");
  EXPECT_EQ(ComputeChannels(graphs, 2, 90), 16);
}

// A balanced tree has its second child on a GPU other than the card's own, which is a detour (PXN).
// Hopper tries the plain tree first, and it is as fast.
TEST(SearchTest, RailsHavePlainTrees) {
  EXPECT_EQ(FindGraphs(DgxH100(), 2, Version::kV230).tree.pattern, Pattern::kTree);
  // With two GPUs at each switch both have the card near.
  EXPECT_EQ(FindGraphs(DgxA100(), 2, Version::kV230).tree.pattern, Pattern::kBalancedTree);
}

// Four nodes of eight A100 with eight cards of 200 Gbit/s: 25, and 24 over PCIe. Inside the node,
// trees may be faster than the cards.
TEST(SearchTest, A100WithRails) {
  const Graphs graphs = FindGraphs(DgxA100(), 4, Version::kV230);
  EXPECT_EQ(Text(graphs.ring), "8@24/24 NVL/PIX");
  EXPECT_EQ(graphs.tree.channels, 8);
  EXPECT_EQ(graphs.tree.bw_inter, 24);
  EXPECT_EQ(graphs.tree.bw_intra, 30);
  EXPECT_EQ(Text(graphs.nvls), "none");
  EXPECT_EQ(ComputeChannels(graphs, 4, 80), 16);
}

// n heads: (n + 1) x speed <= 370.8. 4: 5 x 60; 5: 6 x 60; 6: 7 x 50; 7: 8 x 40.
TEST(SearchTest, FewerHeadsAreFaster) {
  std::vector<std::string> found;
  for (int gpus : {2, 4, 5, 6, 7}) {
    found.push_back(Text(FindGraphs(DgxH100(gpus), 1, Version::kV230).nvls));
  }
  EXPECT_EQ(found,
            (std::vector<std::string>{"2@60/60 NVL/PIX", "4@60/60 NVL/PIX", "5@60/60 NVL/PIX",
                                      "6@50/60 NVL/PIX", "7@40/60 NVL/PIX"}));
}

// One GPU per node: the card's 48 is two channels of 24; four compute channels, and again twice
// that only above 45 GB/s.
TEST(SearchTest, OneGpuANode) {
  const Graphs graphs = FindGraphs(DgxH100(1), 2, Version::kV230);
  EXPECT_EQ(Text(graphs.ring), "2@24/24 LOC/PIX");
  EXPECT_EQ(Text(graphs.nvls), "none");
  EXPECT_EQ(ComputeChannels(graphs, 2, 90), 4);
}

// Four A100 joined directly, with four links of 20 between each pair (an HGX A100 4-GPU board): 240
// in all, over three neighbors of 80.
TEST(SearchTest, DirectNvlinks) {
  Node node;
  node.cpu = Cpu::kAmd;
  for (int i = 0; i < 4; ++i) {
    node.gpus.push_back({.compute_capability = 80, .slot = {.socket = i / 2, .bandwidth = 24}});
    for (int j = i + 1; j < 4; ++j) node.nvlinks.push_back({.a = i, .b = j, .links = 4});
  }
  const Graphs graphs = FindGraphs(node, 1, Version::kV230);
  EXPECT_EQ(Text(graphs.ring), "12@20/20 NVL/PIX");
}

// Blackwell's slowest step is 18, and NCCL gives the link between AMD's sockets 16. One channel in
// GPU order replaces the missing result and gets that link's bandwidth.
TEST(SearchTest, WhatIsNotFoundCarriesWhatItsLinksDo) {
  Node node;
  node.cpu = Cpu::kAmd;
  for (int i = 0; i < 4; ++i) {
    node.gpus.push_back({.compute_capability = 120, .slot = {.socket = i / 2, .bandwidth = 48}});
  }
  const Graph ring = FindGraphs(node, 1, Version::kV230).ring;
  EXPECT_FALSE(ring.found);
  EXPECT_EQ(ring.bw_intra, 16);
}

// GPUs at one PCIe root of 24: a ring at 20 (24 is not a step in one node) leaves nothing for a
// second one; two rings of 12 carry more.
TEST(SearchTest, PcieOnly) {
  EXPECT_EQ(Text(FindGraphs(PcieNode(4, Cpu::kAmd), 1, Version::kV230).ring), "2@12/12 PHB/PIX");
  // Intel's root needs 1.2 of the traffic: 20 x 1.2 = 24. Two of 10 carry no more.
  EXPECT_EQ(Text(FindGraphs(PcieNode(4, Cpu::kIntelSkylake), 1, Version::kV230).ring),
            "1@20/20 PHB/PIX");
}

TEST(SearchTest, CollNetNeedsCardsThatReduce) {
  Node node = DgxH100();
  EXPECT_EQ(Text(FindGraphs(node, 4, Version::kV230, true).collnet_direct), "none");
  for (Nic& nic : node.nics) nic.reduces = true;
  const Graphs graphs = FindGraphs(node, 4, Version::kV230, true);
  EXPECT_EQ(Text(graphs.collnet_chain), "8@48/48 NVL/PIX");
  EXPECT_EQ(Text(graphs.collnet_direct), "8@48/48 NVL/PIX");
}

TEST(SearchTest, UsersBoundTheChannels) {
  const Graphs graphs = FindGraphs(DgxH100(), 1, Version::kV230);
  EXPECT_EQ(ComputeChannels(graphs, 1, 90, {.at_most = 8}), 8);
  EXPECT_EQ(ComputeChannels(graphs, 1, 90, {.at_least = 32}), 32);
  EXPECT_EQ(ComputeChannels(graphs, 1, 90, {.at_least = 32, .parent = 16}), 16);
  EXPECT_EQ(NvlsChannels(graphs, 1, 90, {.at_most = 8}), 8);
}

// For any node: no link carries more than it can, and every channel visits every GPU once.
RC_GTEST_PROP(SearchProperty, RingsFitTheirLinks, ()) {
  Node node;
  node.cpu = *rc::gen::element(Cpu::kAmd, Cpu::kIntelSkylake);
  const int gpus = *rc::gen::inRange(1, 7);
  const int capability = *rc::gen::element(70, 80, 90, 100);
  const bool nvswitch = *rc::gen::arbitrary<bool>();
  const int links = *rc::gen::inRange(1, 19);
  for (int i = 0; i < gpus; ++i) {
    node.gpus.push_back({.compute_capability = capability,
                         .nvswitch_links = nvswitch ? links : 0,
                         .slot = {.socket = *rc::gen::inRange(0, 2), .bandwidth = 24}});
  }
  const int nics = *rc::gen::inRange(1, 4);
  for (int i = 0; i < nics; ++i) {
    node.nics.push_back({.bandwidth = *rc::gen::element(12.5, 25.0, 50.0),
                         .slot = {.socket = *rc::gen::inRange(0, 2), .bandwidth = 24}});
  }
  const bool across = *rc::gen::arbitrary<bool>();
  const Fabric fabric = MakeFabric(node, across);
  const Graph ring = SearchGraph(node, fabric, Version::kV230, {.pattern = Pattern::kRing});
  RC_ASSERT(ring.channels >= 1);
  RC_ASSERT(static_cast<int>(ring.paths.size()) == ring.channels);
  if (!ring.found) RC_DISCARD("nothing found");

  std::map<int, double> load;
  const auto carry = [&](const Path& path, double bandwidth) {
    for (int link : path.links) {
      const bool pcie = fabric.links[static_cast<std::size_t>(link)].pcie;
      load[link] += bandwidth * (pcie && path.through_intel_root ? 1.2 : 1.0);
    }
  };
  for (const ChannelPath& path : ring.paths) {
    std::vector<int> sorted = path.gpus;
    std::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < gpus; ++i) RC_ASSERT(sorted[static_cast<std::size_t>(i)] == i);
    const auto gpu = [&](std::size_t i) {
      return static_cast<std::size_t>(path.gpus[i % path.gpus.size()]);
    };
    const std::size_t hops = across ? path.gpus.size() - 1 : path.gpus.size();
    for (std::size_t i = 0; i < hops; ++i) {
      carry(fabric.gpu_to_gpu[gpu(i)][gpu(i + 1)], ring.bw_intra);
    }
    if (across) {
      carry(fabric.nic_to_gpu[static_cast<std::size_t>(path.nic_in)][gpu(0)], ring.bw_inter);
      carry(fabric.gpu_to_nic[gpu(path.gpus.size() - 1)][static_cast<std::size_t>(path.nic_out)],
            ring.bw_inter);
    }
  }
  for (const auto& [link, carried] : load) {
    const Link& description = fabric.links[static_cast<std::size_t>(link)];
    RC_ASSERT(carried <= static_cast<double>(description.bandwidth) / 1000 + 0.01);
  }
}

}  // namespace
}  // namespace stepcast::nccl
