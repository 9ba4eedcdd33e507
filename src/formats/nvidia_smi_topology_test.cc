#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "src/formats/imported_topology.h"
#include "src/topology/node_type.h"

namespace stepcast::formats {
namespace {

using topology::DeviceKind;

// Four H100 on two sockets with two NICs, printed by a recent driver.
constexpr std::string_view kMatrix =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPIX\tSYS\t0-31\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNV18\tPXB\tSYS\t0-31\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tSYS\tNODE\t32-63\t1\t\tN/A\n"
    "GPU3\tNV18\tNV18\tNV18\t X \tSYS\tNODE\t32-63\t1\t\tN/A\n"
    "NIC0\tPIX\tPXB\tSYS\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tSYS\tNODE\tNODE\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe and the interconnect\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n";

ImportOptions H100() {
  ImportOptions options;
  options.gpu = "h100-sxm";
  options.nic_speed = Bandwidth::GigabytesPerSecond(50);
  options.nics = {"all"};
  return options;
}

Result<ImportedTopology> Parse(std::string_view text, const ImportOptions& options = H100()) {
  return ParseNvidiaSmiTopology(text, "matrix.txt", options);
}

std::string Changed(std::string_view what, std::string_view to) {
  std::string text(kMatrix);
  text.replace(text.find(what), what.size(), to);
  return text;
}

TEST(NvidiaSmiTopology, GroupsBecomeSwitchesAndSockets) {
  const auto topology = Parse(kMatrix);
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  const topology::NodeType& node = topology->node_type;
  EXPECT_EQ(node.Count(DeviceKind::kGpu), 4);
  // 3 x 18 links exceed the 18 of an H100, so they lead to NVSwitches.
  EXPECT_EQ(node.Count(DeviceKind::kNvSwitch), 1);
  EXPECT_EQ(node.Count(DeviceKind::kPcieSwitch), 1);  // GPU0, GPU1, NIC0
  EXPECT_EQ(node.Count(DeviceKind::kCpu), 2);
  EXPECT_EQ(node.Count(DeviceKind::kNic), 2);
  EXPECT_EQ(node.links[0].kind, topology::LinkKind::kNvLink);
  EXPECT_EQ(node.links[0].count, 18);
  EXPECT_EQ(Format(node.links[1].from), "gpu[0..1]");
  EXPECT_EQ(Format(node.links[1].to), "pcie_switch[0]");
}

// Two cards with a bridge of 12 links and no NVSwitch. Without NICs no speed is needed.
TEST(NvidiaSmiTopology, LinksThatAGpuHasAreDirect) {
  ImportOptions options;
  options.gpu = "a100-pcie-80gb";
  const auto topology = Parse(
      "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n"
      "GPU0     X      NV12    0-31            N/A\n"
      "GPU1    NV12     X      0-31            N/A\n",
      options);
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  EXPECT_EQ(topology->node_type.Count(DeviceKind::kNvSwitch), 0);
  EXPECT_EQ(topology->node_type.links[0].count, 12);
  EXPECT_FALSE(topology->fabric.has_value());
}

TEST(NvidiaSmiTopology, WhatItDoesNotTellMustBeGiven) {
  const auto topology = Parse(kMatrix, {});
  ASSERT_FALSE(topology.has_value());
  ASSERT_EQ(topology.error().size(), 2u);
  EXPECT_EQ(topology.error()[0].code, "topology.unknown-gpu");
  EXPECT_EQ(topology.error()[1].code, "topology.no-speed");
}

TEST(NvidiaSmiTopology, MistakesAreNamedWhereTheyStand) {
  const auto halves = Parse(Changed("NIC0\tPIX", "NIC0\tNODE"));
  ASSERT_FALSE(halves.has_value());
  EXPECT_EQ(halves.error().front().code, "topology.bad-matrix");
  EXPECT_EQ(halves.error().front().location.line, 6);
  EXPECT_EQ(halves.error().front().location.column, 6);
  EXPECT_FALSE(Parse(Changed("PXB", "PYB")).has_value());
  EXPECT_FALSE(
      Parse(Changed("GPU3\tNV18\tNV18\tNV18\t X \tSYS\tNODE\t32-63\t1\t\tN/A\n", "")).has_value());
  EXPECT_FALSE(Parse(kMatrix.substr(0, kMatrix.find("NIC0\tPIX") + 12)).has_value());
  const auto other = Parse("Hello\n");
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().front().code, "topology.not-smi");
}

// NIC0 shares a switch with GPU0 and GPU1. NIC1 shares one with no GPU and has another purpose.
TEST(NvidiaSmiTopology, NicsThatShareNoSwitchAreLeftOut) {
  ImportOptions options = H100();
  options.nics.clear();
  const auto by_rule = Parse(kMatrix, options);
  ASSERT_TRUE(by_rule.has_value()) << Format(by_rule.error());
  EXPECT_EQ(by_rule->node_type.Count(DeviceKind::kNic), 1);
  EXPECT_EQ(by_rule->notes.front(),
            "NICs that share no PCIe switch with a GPU are ignored, because such NICs usually "
            "serve storage or management (to include them, add --nics all): mlx5_1");
  // If no NIC shares one, all count.
  std::string text(kMatrix);
  for (const auto& [from, to] : {std::pair("PIX", "PHB"), {"PXB", "PHB"}}) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
      text.replace(at, 3, to);
    }
  }
  EXPECT_EQ(Parse(text, options)->node_type.Count(DeviceKind::kNic), 2);
  // By name in the matrix or in the legend.
  for (const char* name : {"NIC1", "mlx5_1"}) {
    options.nics = {name};
    const auto named = Parse(kMatrix, options);
    ASSERT_TRUE(named.has_value()) << Format(named.error());
    EXPECT_EQ(named->node_type.Count(DeviceKind::kNic), 1);
    EXPECT_EQ(named->notes.front(), "NICs that --nics does not list are ignored: mlx5_0");
  }
  options.nics = {"mlx5_0", "mlx5_7"};
  const auto unknown = Parse(kMatrix, options);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().front().code, "topology.unknown-nic");
}

// Output pasted into comments of issues and scripts, and into Markdown tables.
TEST(NvidiaSmiTopology, ReadsWhatWasPasted) {
  const auto plain = Parse(kMatrix);
  ASSERT_TRUE(plain.has_value());
  for (const std::string_view quote : {"> ", ">> ", "# ", "// ", " * ", "    "}) {
    std::string pasted = "```\n";
    std::string_view rest = kMatrix;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n') + 1;
      pasted += std::string(quote) + std::string(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    const auto topology = Parse(pasted + "```\n");
    ASSERT_TRUE(topology.has_value()) << quote << "\n" << Format(topology.error());
    EXPECT_EQ(topology->node_type, plain->node_type) << quote;
  }
  std::string table(kMatrix);
  std::replace(table.begin(), table.end(), '\t', '|');
  const auto topology = Parse(table);
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  EXPECT_EQ(topology->node_type, plain->node_type);
}

}  // namespace
}  // namespace stepcast::formats
