#include "src/topology/sample_nodes.h"

#include <utility>

namespace stepcast::topology {
namespace {

constexpr DeviceKind kGpu = DeviceKind::kGpu;
constexpr DeviceKind kNvSwitch = DeviceKind::kNvSwitch;
constexpr DeviceKind kPcieSwitch = DeviceKind::kPcieSwitch;
constexpr DeviceKind kCpu = DeviceKind::kCpu;
constexpr DeviceKind kNic = DeviceKind::kNic;

NodeType Named(const char* name, std::array<int, kNodeDeviceKinds> devices) {
  NodeType node;
  node.name = name;
  node.gpu = "sample";
  node.gpu_memory = GiB(80);
  node.devices = devices;
  return node;
}

LinkSpec PortOf(int nanoseconds, int gigabytes) {
  return {Nanoseconds(nanoseconds), Bandwidth::GigabytesPerSecond(gigabytes)};
}

}  // namespace

DeviceSet Devices(DeviceKind kind, int first, int count) {
  DeviceSet set;
  set.kind = kind;
  for (int i = 0; i < count; ++i) set.indices.push_back(first + i);
  return set;
}

LinkRule Rule(LinkKind kind, DeviceSet from, DeviceSet to, Join join, int count, int nanoseconds,
              int gigabytes) {
  return {kind, std::move(from), std::move(to), join, count, PortOf(nanoseconds, gigabytes)};
}

NodeType SwitchedNode() {
  NodeType node = Named("switched", {8, 4, 4, 2, 8});
  node.links = {
      Rule(LinkKind::kNvLink, Devices(kGpu, 0, 8), {kNvSwitch, {0, 3}}, Join::kAllToAll, 5, 250,
           25),
      Rule(LinkKind::kNvLink, Devices(kGpu, 0, 8), {kNvSwitch, {1, 2}}, Join::kAllToAll, 4, 250,
           25),
      Rule(LinkKind::kPcie, Devices(kGpu, 0, 8), Devices(kPcieSwitch, 0, 4), Join::kInOrder, 1, 150,
           64),
      Rule(LinkKind::kPcie, Devices(kNic, 0, 8), Devices(kPcieSwitch, 0, 4), Join::kInOrder, 1, 150,
           64),
      Rule(LinkKind::kPcie, Devices(kPcieSwitch, 0, 4), Devices(kCpu, 0, 2), Join::kInOrder, 1, 150,
           64),
      Rule(LinkKind::kCpuInterconnect, {kCpu, {0}}, {kCpu, {1}}, Join::kInOrder, 1, 200, 22),
  };
  return node;
}

NodeType PcieNode() {
  NodeType node = Named("pcie", {4, 0, 2, 2, 1});
  node.links = {
      Rule(LinkKind::kPcie, Devices(kGpu, 0, 4), Devices(kPcieSwitch, 0, 2), Join::kInOrder, 1, 200,
           32),
      Rule(LinkKind::kPcie, Devices(kNic, 0, 1), Devices(kPcieSwitch, 0, 1), Join::kInOrder, 1, 200,
           32),
      Rule(LinkKind::kPcie, Devices(kPcieSwitch, 0, 2), Devices(kCpu, 0, 2), Join::kInOrder, 1, 200,
           32),
      Rule(LinkKind::kCpuInterconnect, {kCpu, {0}}, {kCpu, {1}}, Join::kInOrder, 1, 300, 16),
  };
  return node;
}

NodeType MeshNode(int gpus) {
  NodeType node = Named("mesh", {gpus, 0, 0, 0, 0});
  node.links = {Rule(LinkKind::kNvLink, Devices(kGpu, 0, gpus), Devices(kGpu, 0, gpus),
                     Join::kAllToAll, 1, 500, 64)};
  return node;
}

NodeType CubeMeshNode() {
  NodeType node = Named("cube mesh", {8, 0, 4, 2, 4});
  // (GPU, GPU, links)
  constexpr int kNvLinks[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 1},
                                 {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 1},
                                 {0, 4, 2}, {1, 5, 2}, {2, 6, 2}, {3, 7, 2}};
  for (const auto& [a, b, count] : kNvLinks) {
    node.links.push_back(
        Rule(LinkKind::kNvLink, {kGpu, {a}}, {kGpu, {b}}, Join::kInOrder, count, 700, 25));
  }
  node.links.push_back(Rule(LinkKind::kPcie, Devices(kGpu, 0, 8), Devices(kPcieSwitch, 0, 4),
                            Join::kInOrder, 1, 400, 16));
  node.links.push_back(Rule(LinkKind::kPcie, Devices(kNic, 0, 4), Devices(kPcieSwitch, 0, 4),
                            Join::kInOrder, 1, 400, 16));
  node.links.push_back(Rule(LinkKind::kPcie, Devices(kPcieSwitch, 0, 4), Devices(kCpu, 0, 2),
                            Join::kInOrder, 1, 400, 16));
  node.links.push_back(
      Rule(LinkKind::kCpuInterconnect, {kCpu, {0}}, {kCpu, {1}}, Join::kInOrder, 1, 400, 9));
  return node;
}

Fabric OneSwitch() {
  Fabric fabric;
  fabric.kind = FabricKind::kOneSwitch;
  fabric.link = PortOf(400, 50);
  return fabric;
}

Fabric Rails() {
  Fabric fabric;
  fabric.kind = FabricKind::kRailOptimised;
  fabric.link = PortOf(400, 50);
  fabric.nodes_per_unit = 2;
  fabric.rails = 8;
  fabric.spines = 2;
  fabric.uplink = PortOf(300, 50);
  return fabric;
}

Fabric FatTree(double oversubscription) {
  Fabric fabric;
  fabric.kind = FabricKind::kFatTree;
  fabric.link = PortOf(400, 50);
  fabric.nodes_per_unit = 2;
  fabric.spines = 4;
  fabric.uplink.latency = Nanoseconds(300);
  SetOversubscription(fabric, 8, oversubscription);
  return fabric;
}

}  // namespace stepcast::topology
