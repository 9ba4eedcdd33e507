#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "src/cost/nccl_setting.h"
#include "src/nccl/graphs.h"
#include "src/nccl/version.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::cost {
namespace {

using topology::DeviceKind;
using topology::Devices;
using topology::Join;
using topology::LinkKind;
using topology::Rule;

constexpr DeviceKind kGpu = DeviceKind::kGpu;
constexpr DeviceKind kPcieSwitch = DeviceKind::kPcieSwitch;
constexpr DeviceKind kCpu = DeviceKind::kCpu;
constexpr DeviceKind kNic = DeviceKind::kNic;

TEST(NcclNode, HasTheChosenGpusAndAllCards) {
  const std::vector<int> gpus = {1, 6};
  const nccl::Node node =
      NcclNode(topology::SwitchedNode(), 90, Bandwidth::GigabytesPerSecond(50), gpus);
  ASSERT_EQ(node.gpus.size(), 2u);
  EXPECT_EQ(node.gpus[0].nvswitch_links, 18);
  EXPECT_EQ(node.gpus[0].slot.pcie_switch, 0);
  EXPECT_EQ(node.gpus[1].slot.pcie_switch, 3);
  // 64 GB/s of PCIe carry 48 for NCCL.
  EXPECT_DOUBLE_EQ(node.gpus[1].slot.bandwidth, 48);
  EXPECT_EQ(node.nics.size(), 8u);
  EXPECT_DOUBLE_EQ(node.nics[0].bandwidth, 50);
  EXPECT_EQ(node.switches[3].socket, 1);
}

// Four GPUs of eight, two on each PCIe switch, which has two cards. Channels use the four cards
// near the GPUs, and there are as many channels as four cards can feed.
TEST(NcclNode, APartOfItUsesTheCardsNearItsGpus) {
  const Bandwidth port = Bandwidth::GigabytesPerSecond(25);
  const auto rings = [&](const std::vector<int>& gpus) {
    const nccl::Node node = NcclNode(topology::SwitchedNode(), 80, port, gpus);
    return nccl::FindGraphs(node, 2, nccl::Version::kV227).ring;
  };
  const nccl::Graph part = rings({0, 1, 2, 3});
  std::set<int> cards;
  for (const nccl::ChannelPath& path : part.paths) {
    EXPECT_EQ(path.gpus.size(), 4u);
    cards.insert(path.nic_in);
    cards.insert(path.nic_out);
  }
  EXPECT_EQ(cards, (std::set<int>{0, 1, 2, 3}));
  const nccl::Graph whole = rings({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_DOUBLE_EQ(2 * part.channels * part.bw_inter, whole.channels * whole.bw_inter);
}

// GPUs 0 and 1 are below switch 1, GPUs 2 and 3 below switch 2, both below switch 0, which connects
// to the processor, as does the card. The link from switch 2 has half the bandwidth.
TEST(NcclNode, SwitchesBelowSwitchesArePartOfThem) {
  topology::NodeType type;
  type.devices = {4, 0, 3, 1, 1};
  type.links = {
      Rule(LinkKind::kPcie, Devices(kGpu, 0, 4), {kPcieSwitch, {1, 2}}, Join::kInOrder, 1, 150, 64),
      Rule(LinkKind::kPcie, {kPcieSwitch, {1}}, {kPcieSwitch, {0}}, Join::kInOrder, 1, 150, 64),
      Rule(LinkKind::kPcie, {kPcieSwitch, {0}}, {kPcieSwitch, {2}}, Join::kInOrder, 1, 150, 32),
      Rule(LinkKind::kPcie, {kPcieSwitch, {0}}, {kCpu, {0}}, Join::kInOrder, 1, 150, 64),
      Rule(LinkKind::kPcie, {kNic, {0}}, {kPcieSwitch, {0}}, Join::kInOrder, 1, 150, 64)};
  const std::vector<int> gpus = {0, 1, 2, 3};
  const nccl::Node node = NcclNode(type, 90, Bandwidth::GigabytesPerSecond(50), gpus);
  for (const nccl::Gpu& gpu : node.gpus) EXPECT_EQ(gpu.slot.pcie_switch, 0);
  EXPECT_DOUBLE_EQ(node.gpus[1].slot.bandwidth, 48);
  EXPECT_DOUBLE_EQ(node.gpus[2].slot.bandwidth, 24);
  EXPECT_EQ(node.nics[0].slot.pcie_switch, 0);
  EXPECT_DOUBLE_EQ(node.switches[0].bandwidth, 48);
}

}  // namespace
}  // namespace stepcast::cost
