#include "src/scenario/machine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/scenario/document.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {
namespace {

// A CPU has PCIe lanes for at most this many GPUs.
constexpr std::int64_t kMostOfWorkstation = 8;

struct ShippedNode {
  std::string name;
  std::int64_t gpus = 0;  // of a node
};

// The shipped topology whose nodes have this GPU.
std::optional<ShippedNode> ShippedWith(const topology::Gpu& gpu) {
  std::vector<std::string> names = ShippedNames(SourceKind::kTopology);
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name.starts_with("dgx-"); });
  for (std::string& name : names) {
    const auto path = FindSource(name, "", SourceKind::kTopology);
    if (!path) continue;
    const auto topology = LoadTopology(*path);
    if (!topology || !topology->gpu || topology->gpu->name != gpu.name) continue;
    const auto* node = std::get_if<NodeDescription>(&topology->description);
    if (node == nullptr) continue;
    return ShippedNode{std::move(name), node->node_type.Count(topology::DeviceKind::kGpu)};
  }
  return std::nullopt;
}

// PCIe x16 in one direction, raw: Gen3 16, Gen4 32, Gen5 64 GB/s. NVIDIA's boards have Gen4 from
// compute capability 8.0 on, Gen5 from 9.0 on (data sheets); other vendors' are assumed to have
// Gen5.
int PcieBandwidthOf(const topology::Gpu& gpu) {
  constexpr int kGen5 = 90, kGen4 = 80;
  if (gpu.compute_capability == 0 || gpu.compute_capability >= kGen5) return 64;
  return gpu.compute_capability >= kGen4 ? 32 : 16;
}

// The host of a workstation: a desktop's two channels of DDR4-3200 for one or two GPUs, a server
// CPU's eight for more, and as much memory as such machines are sold with.
struct WorkstationHost {
  std::int64_t memory = 0;     // GiB
  std::int64_t bandwidth = 0;  // GB/s
};

WorkstationHost HostOf(std::int64_t gpus) {
  constexpr std::int64_t kMemoryOfGpu = 64;
  return {.memory = kMemoryOfGpu * gpus, .bandwidth = gpus <= 2 ? 51 : 204};
}

std::string WorkstationOf(const topology::Gpu& gpu, const std::string& name, std::int64_t gpus) {
  const std::string host = fmt::format("{{memory: {} GiB, memory_bandwidth: {} GB/s}}",
                                       HostOf(gpus).memory, HostOf(gpus).bandwidth);
  return fmt::format(
      "name: Workstation with {1} {0}\n"
      "node:\n"
      "  gpu: {0}\n"
      "  processor: amd\n"
      "  devices: {{gpu: {1}, cpu: 1}}\n"
      "  host: {3}\n"
      "  links:\n"
      "    - {{kind: pcie, from: gpu, to: cpu, latency: 150 ns, bandwidth: {2} GB/s}}\n",
      name, gpus, PcieBandwidthOf(gpu), host);
}

}  // namespace

std::optional<Machine> MachineOf(const std::string& gpu, std::int64_t gpus,
                                 const Location& location, Diagnostics& diagnostics) {
  const auto sheet = FindGpu(gpu, "", location, diagnostics);
  if (!sheet) return std::nullopt;
  if (const auto shipped = ShippedWith(*sheet)) {
    const std::int64_t nodes = (gpus + shipped->gpus - 1) / shipped->gpus;
    auto name = ParseDocument(shipped->name, "cluster.gpu", diagnostics);
    if (!name) return std::nullopt;
    const bool whole = nodes * shipped->gpus == gpus;
    return Machine{
        .topology = name->tree(),
        .nodes = nodes,
        .devices = whole ? std::nullopt : std::optional(gpus),
        .taken = fmt::format("assumed: {} {} in nodes of {} (to change this assumption, set "
                             "cluster.topology)",
                             gpus, sheet->name, shipped->name)};
  }
  if (gpus > kMostOfWorkstation) {
    diagnostics.push_back(
        {"topology.too-many-gpus", location,
         fmt::format("a workstation has at most {} GPUs: {}", kMostOfWorkstation, gpus),
         "describe the cluster in a topology file (docs/formats/topology.md), and use the file: "
         "--cluster my.yaml"});
    return std::nullopt;
  }
  auto mapping = ParseDocument(WorkstationOf(*sheet, gpu, gpus), "cluster.gpu", diagnostics);
  if (!mapping) return std::nullopt;
  return Machine{
      .topology = mapping->tree(),
      .nodes = 1,
      .devices = std::nullopt,
      .taken = fmt::format("assumed: {} {} in a workstation without NVLink, with {} GB/s of PCIe "
                           "for each GPU and {} GiB of host memory at {} GB/s (to change this "
                           "assumption, set cluster.topology)",
                           gpus, sheet->name, PcieBandwidthOf(*sheet), HostOf(gpus).memory,
                           HostOf(gpus).bandwidth)};
}

}  // namespace stepcast::scenario
