#include "gtest/gtest.h"
#include "src/nccl/node.h"
#include "tests/examples/sample_communicators.h"

namespace stepcast::nccl {
namespace {

TEST(FabricTest, GpusMeetInNvswitch) {
  const Fabric fabric = MakeFabric(DgxH100(), false);
  EXPECT_TRUE(fabric.has_nvswitch());
  EXPECT_EQ(fabric.gpu_to_gpu[0][7].type, PathType::kNvlink);
  EXPECT_EQ(fabric.gpu_to_gpu[0][7].hops(), 2);
  EXPECT_DOUBLE_EQ(fabric.gpu_to_gpu[0][7].bandwidth, 370.8);
  EXPECT_EQ(fabric.gpu_to_gpu[3][3].type, PathType::kLocal);
  EXPECT_TRUE(fabric.nic_to_gpu.empty());
}

// The port has 50, PCIe 48. A GPU reaches another one's card over NVLink; the card cannot reach the
// GPU that way.
TEST(FabricTest, CardsOfOthersAreReachedThroughTheirGpu) {
  const Fabric fabric = MakeFabric(DgxH100(), true);
  EXPECT_EQ(fabric.gpu_to_nic[2][2].type, PathType::kPix);
  EXPECT_DOUBLE_EQ(fabric.gpu_to_nic[2][2].bandwidth, 48);
  EXPECT_EQ(fabric.gpu_to_nic[2][3].type, PathType::kPxn);
  EXPECT_DOUBLE_EQ(fabric.gpu_to_nic[2][3].bandwidth, 48);
  EXPECT_EQ(fabric.gpu_to_nic[2][7].type, PathType::kPxn);
  EXPECT_EQ(fabric.nic_to_gpu[2][3].type, PathType::kPhb);
  EXPECT_EQ(fabric.nic_to_gpu[2][7].type, PathType::kSys);
  // Between the sockets of Sapphire Rapids: 22.
  EXPECT_DOUBLE_EQ(fabric.nic_to_gpu[2][7].bandwidth, 22);
}

TEST(FabricTest, CardsAtOneSwitchNeedNoDetour) {
  const Fabric fabric = MakeFabric(DgxA100(), true);
  EXPECT_EQ(fabric.gpu_to_nic[0][1].type, PathType::kPix);
  EXPECT_EQ(fabric.gpu_to_nic[1][0].type, PathType::kPix);
  EXPECT_EQ(fabric.gpu_to_nic[0][2].type, PathType::kPxn);
}

// Four GPUs in a square with two NVLinks of 20 on each side: neighbors are one hop apart, opposite
// corners two.
TEST(FabricTest, NvlinkBridges) {
  Node node;
  for (int i = 0; i < 4; ++i) node.gpus.push_back({.compute_capability = 70, .slot = {}});
  for (int i = 0; i < 4; ++i) node.nvlinks.push_back({.a = i, .b = (i + 1) % 4, .links = 2});
  const Fabric fabric = MakeFabric(node, false);
  EXPECT_FALSE(fabric.has_nvswitch());
  EXPECT_EQ(fabric.gpu_to_gpu[0][1].type, PathType::kNvlink);
  EXPECT_DOUBLE_EQ(fabric.gpu_to_gpu[0][1].bandwidth, 40);
  EXPECT_EQ(fabric.gpu_to_gpu[0][2].type, PathType::kNvlinkBridge);
  EXPECT_EQ(fabric.gpu_to_gpu[0][2].hops(), 2);
}

TEST(FabricTest, WithoutNvlinkPcieIsCrossed) {
  Node node = PcieNode(3, Cpu::kIntelSkylake);
  node.gpus[2].slot.socket = 1;
  const Fabric fabric = MakeFabric(node, true);
  EXPECT_EQ(fabric.gpu_to_gpu[0][1].type, PathType::kPhb);
  EXPECT_TRUE(fabric.gpu_to_gpu[0][1].through_intel_root);
  EXPECT_EQ(fabric.gpu_to_gpu[0][2].type, PathType::kSys);
  EXPECT_DOUBLE_EQ(fabric.gpu_to_gpu[0][2].bandwidth, 10);
  EXPECT_EQ(fabric.gpu_to_nic[0][0].type, PathType::kPhb);
  EXPECT_FALSE(fabric.nic_to_gpu[0][0].through_intel_root);
}

}  // namespace
}  // namespace stepcast::nccl
