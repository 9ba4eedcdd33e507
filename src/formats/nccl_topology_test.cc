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

constexpr std::string_view kPciHead =
    R"(vendor="0x10de" device="0x2330" subsystem_vendor="0x10de" subsystem_device="0x1" )"
    R"(link_speed="32.0 GT/s PCIe" link_width="16")";

std::string Gpu(int number, std::string_view links) {
  return "<pci busid=\"0000:1" + std::to_string(number) + ":00.0\" class=\"0x030200\" " +
         std::string(kPciHead) + ">\n<gpu dev=\"" + std::to_string(number) +
         "\" sm=\"90\" rank=\"" + std::to_string(number) + "\" gdr=\"1\">\n" + std::string(links) +
         "</gpu>\n</pci>\n";
}
std::string Nic(int number, std::string_view speed = "400000") {
  return "<pci busid=\"0000:2" + std::to_string(number) +
         ":00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x1021\" link_speed=\"32.0 GT/s "
         "PCIe\" link_width=\"16\">\n<nic>\n<net name=\"mlx5_" +
         std::to_string(number) + "\" dev=\"" + std::to_string(number) + "\" speed=\"" +
         std::string(speed) +
         "\" port=\"1\" guid=\"0x1\" maxconn=\"131072\" gdr=\"1\"/>\n</nic>\n" + "</pci>\n";
}
std::string Bridge(int number, std::string_view below) {
  return "<pci busid=\"0000:3" + std::to_string(number) +
         ":00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n" +
         std::string(below) + "</pci>\n";
}
std::string Cpu(int number, std::string_view below,
                std::string_view type = R"(arch="x86_64" vendor="GenuineIntel" familyid="6" )"
                                        R"(modelid="143")") {
  return "<cpu numaid=\"" + std::to_string(number) + "\" affinity=\"ff\" " + std::string(type) +
         ">\n" + std::string(below) + "</cpu>\n";
}
std::string System(std::string_view below) {
  return "<system version=\"1\">\n" + std::string(below) + "</system>\n";
}
constexpr std::string_view kToSwitch =
    "<nvlink target=\"0000:e0:00.0\" count=\"18\" tclass=\"0x068000\"/>\n";

// Most of these machines have no NVLinks, for brevity.
Result<ImportedTopology> Parse(std::string_view text,
                               const ImportOptions& options = {
                                   .missing_nvlinks = MissingNvLinks::kNone}) {
  return ParseNcclTopology(text, "node.xml", options);
}

// The code of the only mistake.
std::string CodeOf(const Result<ImportedTopology>& result) {
  if (result) return "none";
  EXPECT_EQ(result.error().size(), 1u) << Format(result.error());
  return result.error().front().code;
}

bool Noted(const ImportedTopology& topology, std::string_view text) {
  return std::any_of(topology.notes.begin(), topology.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

TEST(NcclTopology, ANodeOfTwoSocketsIsDrawnInFourRules) {
  const auto topology = Parse(System(Cpu(0, Bridge(0, Gpu(0, kToSwitch) + Nic(0))) +
                                     Cpu(1, Bridge(1, Gpu(1, kToSwitch) + Nic(1)))));
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  const topology::NodeType& node = topology->node_type;
  EXPECT_EQ(node.gpu, "h100-sxm") << "by the PCI ids";
  EXPECT_EQ(node.Count(DeviceKind::kGpu), 2);
  EXPECT_EQ(node.Count(DeviceKind::kNvSwitch), 1);
  EXPECT_EQ(node.Count(DeviceKind::kPcieSwitch), 2);
  EXPECT_EQ(node.Count(DeviceKind::kCpu), 2);
  EXPECT_EQ(node.Count(DeviceKind::kNic), 2);
  // GPU to switch, NIC to switch, switch to CPU, NVLink, between CPUs.
  ASSERT_EQ(node.links.size(), 5u);
  // 32 GT/s x 16 lanes / 8 bits.
  EXPECT_EQ(node.links[0].link.bandwidth, Bandwidth::GigabytesPerSecond(64));
  EXPECT_EQ(node.links[3].count, 18);
  EXPECT_EQ(node.links[3].link.bandwidth, Bandwidth::GigabytesPerSecond(25));
  // Sapphire Rapids (model 143): three links of 16 GT/s x 24 bits.
  EXPECT_EQ(node.links[4].link.bandwidth, Bandwidth::GigabytesPerSecond(144));
  ASSERT_TRUE(topology->fabric.has_value());
  EXPECT_EQ(topology->fabric->link.bandwidth, Bandwidth::GigabytesPerSecond(50));
  EXPECT_TRUE(Noted(*topology, "no latencies"));
  EXPECT_TRUE(Noted(*topology, "the network between nodes"));
}

// NCCL's model depends on the processor: its posts to the network, and its bandwidth between
// sockets.
TEST(NcclTopology, TellsTheProcessor) {
  const struct {
    std::string_view type;
    topology::Processor processor;
  } cases[] = {
      {R"(arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="17")",
       topology::Processor::kAmd},
      {R"(arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79")",
       topology::Processor::kIntelBroadwell},
      {R"(arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85")",
       topology::Processor::kIntelSkylake},
      {R"(arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143")",
       topology::Processor::kIntelSapphireRapids},
      {R"(arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207")",
       topology::Processor::kIntelEmeraldRapids},
      {R"(arch="arm64")", topology::Processor::kArm},
      {R"(arch="ppc64")", topology::Processor::kPower9},
  };
  for (const auto& [type, processor] : cases) {
    const auto topology = Parse(System(Cpu(0, Gpu(0, kToSwitch), type)));
    ASSERT_TRUE(topology.has_value()) << Format(topology.error());
    EXPECT_EQ(topology->node_type.processor, processor) << type;
  }
}

TEST(NcclTopology, ABridgeWithOneDeviceIsAWire) {
  const auto topology = Parse(System(Cpu(0, Bridge(0, Bridge(1, Gpu(0, "") + Gpu(1, ""))))));
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  EXPECT_EQ(topology->node_type.Count(DeviceKind::kPcieSwitch), 1);
  EXPECT_FALSE(topology->fabric.has_value());
  EXPECT_TRUE(Noted(*topology, "no NIC"));
}

// DGX-1 and similar machines: both ends list the link, which is counted once.
TEST(NcclTopology, DirectNvLinksCountOnce) {
  const auto text = [](int back) {
    return System(
        Cpu(0, Gpu(0, "<nvlink target=\"0000:11:00.0\" count=\"4\" tclass=\"0x030200\"/>\n") +
                   Gpu(1, "<nvlink target=\"0000:10:00.0\" count=\"" + std::to_string(back) +
                              "\" tclass=\"0x030200\"/>\n")));
  };
  const auto topology = Parse(text(4));
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  ASSERT_EQ(topology->node_type.links.size(), 2u);
  EXPECT_EQ(topology->node_type.links[1].count, 4);
  EXPECT_EQ(CodeOf(Parse(text(2))), "topology.impossible");
}

TEST(NcclTopology, OnlyTheFastestNicsJoinNodes) {
  const auto topology = Parse(System(Cpu(0, Gpu(0, "") + Nic(0, "100000") + Nic(1))));
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  EXPECT_EQ(topology->node_type.Count(DeviceKind::kNic), 1);
  EXPECT_TRUE(Noted(*topology, "mlx5_0"));
}

TEST(NcclTopology, CutOffTextNamesTheElementThatIsOpen) {
  const std::string whole = System(Cpu(0, Gpu(0, kToSwitch)));
  const auto cut = Parse(whole.substr(0, whole.find("</gpu>")));
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(CodeOf(cut), "xml.syntax");
  EXPECT_EQ(cut.error().front().message,
            "the XML is incomplete: the element <gpu> in line 4 has no end tag");
  // A cut at any position is detected, and the open element is named.
  for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
    const auto result = Parse(whole.substr(0, length));
    ASSERT_FALSE(result.has_value()) << length;
    const std::string& message = result.error().front().message;
    if (length > std::string_view("<system").size()) {
      EXPECT_TRUE(message.starts_with("the XML is incomplete: the element <"))
          << length << ": " << message;
      EXPECT_EQ(message.find("<>"), std::string::npos) << length << ": " << message;
    }
  }
}

TEST(NcclTopology, TwoMachinesInOneFileAreRefused) {
  const std::string one = System(Cpu(0, Gpu(0, kToSwitch)));
  const auto two = Parse(one + one);
  EXPECT_EQ(CodeOf(two), "xml.syntax");
  EXPECT_EQ(two.error().front().location.line, 10);
}

// If /sys has no values, NCCL writes empty attributes.
TEST(NcclTopology, EmptySpeedsAndWidthsAreNotTold) {
  std::string text = System(Cpu(0, Gpu(0, kToSwitch)));
  text.replace(text.find("32.0 GT/s PCIe"), 14, "");
  text.replace(text.find("link_width=\"16\""), 15, "link_width=\"\"");
  const auto topology = Parse(text);
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  // 8 GT/s x 16 lanes / 8 bits.
  EXPECT_EQ(topology->node_type.links[0].link.bandwidth, Bandwidth::GigabytesPerSecond(16));
  EXPECT_TRUE(Noted(*topology, "8 GT/s and 16 lanes"));
}

// Files for NCCL_TOPO_FILE may leave out NVLinks, since NCCL finds them at run time.
TEST(NcclTopology, NvLinksThatAreNotListedAreAskedFor) {
  const auto read = [](int gpus, MissingNvLinks missing) {
    std::string devices;
    for (int i = 0; i < gpus; ++i) devices += Gpu(i, "");
    ImportOptions options;
    options.missing_nvlinks = missing;
    return ParseNcclTopology(System(Cpu(0, devices)), "node.xml", options);
  };
  EXPECT_EQ(CodeOf(read(2, MissingNvLinks::kRefuse)), "topology.no-nvlinks");
  EXPECT_EQ(CodeOf(read(1, MissingNvLinks::kRefuse)), "none");
  const auto none = read(2, MissingNvLinks::kNone);
  ASSERT_TRUE(none.has_value()) << Format(none.error());
  EXPECT_TRUE(Noted(*none, "as in the input, although a GPU of type h100-sxm has 18 links"));
  // 18 links per GPU: 6 to each of three others; with seven others, all lead to switches.
  const auto four = read(4, MissingNvLinks::kAssume);
  ASSERT_TRUE(four.has_value()) << Format(four.error());
  EXPECT_EQ(four->node_type.Count(DeviceKind::kNvSwitch), 0);
  EXPECT_TRUE(Noted(*four,
                    "Assumed: the 18 links of a GPU of type h100-sxm, divided equally among the "
                    "other GPUs"));
  const auto eight = read(8, MissingNvLinks::kAssume);
  ASSERT_TRUE(eight.has_value()) << Format(eight.error());
  EXPECT_EQ(eight->node_type.Count(DeviceKind::kNvSwitch), 1);
  for (const auto& [topology, count] : {std::pair(&*four, 6), {&*eight, 18}}) {
    const auto link = std::find_if(
        topology->node_type.links.begin(), topology->node_type.links.end(),
        [](const topology::LinkRule& rule) { return rule.kind == topology::LinkKind::kNvLink; });
    ASSERT_NE(link, topology->node_type.links.end());
    EXPECT_EQ(link->count, count);
  }
}

TEST(NcclTopology, MistakesOfAllKindsComeOutAtOnce) {
  std::string text = System(
      Cpu(0, Gpu(0, "<nvlink target=\"0000:e0:00.0\" count=\"five\" tclass=\"0x068000\"/>\n") +
                 Nic(0, "fast")));
  text.replace(text.find("rank=\"0\""), 8, "rank=\"x\"");
  const auto topology = Parse(text);
  ASSERT_FALSE(topology.has_value());
  EXPECT_EQ(topology.error().size(), 3u) << Format(topology.error());
}

TEST(NcclTopology, ALinkOfZeroBandwidthIsNamed) {
  EXPECT_EQ(CodeOf(Parse(System(Cpu(0, Gpu(0, "") + Nic(0, "0"))))), "topology.impossible");
  const auto links = Parse(System(
      Cpu(0, Gpu(0, "<nvlink target=\"0000:e0:00.0\" count=\"0\" tclass=\"0x068000\"/>\n"))));
  EXPECT_EQ(CodeOf(links), "topology.impossible");
  EXPECT_EQ(links.error().front().location.line, 5);
  EXPECT_EQ(links.error().front().location.column, 1);
}

TEST(NcclTopology, ASpeedThatIsNotToldCanBeGiven) {
  const std::string text = System(Cpu(0, Gpu(0, "") + Nic(0, "-1")));
  ImportOptions options;
  options.nic_speed = Bandwidth::GigabytesPerSecond(25);
  const auto topology = Parse(text, options);
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  EXPECT_EQ(topology->fabric->link.bandwidth, Bandwidth::GigabytesPerSecond(25));
}

TEST(NcclTopology, ATopologyInTwoPartsIsNamed) {
  const auto topology = Parse(System(Cpu(0, Gpu(0, "") + Nic(0)) + Gpu(1, "")));
  EXPECT_EQ(CodeOf(topology), "topology.impossible");
  EXPECT_NE(topology.error().front().message.find("there is no path from the GPU at"),
            std::string::npos);
}

// The second GPU reaches the first over NVLink, but no link leads to a NIC.
TEST(NcclTopology, AGpuWithoutAPathToANicIsNamed) {
  const auto topology = Parse(System(Cpu(0, Gpu(0, kToSwitch) + Nic(0)) + Gpu(1, kToSwitch)));
  EXPECT_EQ(CodeOf(topology), "topology.impossible");
  EXPECT_NE(topology.error().front().message.find("to a NIC pass through another GPU"),
            std::string::npos);
}

TEST(NcclTopology, AttributesOfOtherReleasesAreNoted) {
  std::string text = System(Cpu(0, Gpu(0, "")));
  text.replace(text.find(" gdr="), 1, " shade=\"green\" ");
  const auto topology = Parse(text);
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  EXPECT_TRUE(Noted(*topology, "'shade'"));
}

TEST(NcclTopology, OtherDocumentsAreRefused) {
  EXPECT_EQ(CodeOf(Parse("<graphs version=\"1\"></graphs>")), "topology.not-nccl");
  EXPECT_EQ(CodeOf(Parse("<system version=\"1\"></system>")), "topology.impossible");
  EXPECT_EQ(CodeOf(Parse("")), "xml.syntax");
  EXPECT_EQ(CodeOf(Parse(System(Cpu(0, Gpu(0, "") + Gpu(0, ""))))), "topology.impossible");
}

TEST(NcclTopology, AnUnknownGpuMustBeNamed) {
  std::string text = System(Cpu(0, Gpu(0, "")));
  text.replace(text.find("0x2330"), 6, "0xffff");
  EXPECT_EQ(CodeOf(Parse(text)), "topology.unknown-gpu");
  ImportOptions options;
  options.gpu = "a100-sxm-80gb";
  const auto topology = Parse(text, options);
  ASSERT_TRUE(topology.has_value()) << Format(topology.error());
  EXPECT_EQ(topology->node_type.gpu, "a100-sxm-80gb");
}

}  // namespace
}  // namespace stepcast::formats
