#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/node_type.h"

namespace stepcast::formats {

// A machine according to the output of another tool.
struct ImportedTopology {
  topology::NodeType node_type;  // without name and GPU memory
  std::optional<topology::Fabric> fabric;
  // Sentences, without a period, about missing input, assumed values and omitted parts.
  std::vector<std::string> notes;
};

// How an import handles an input without NVLinks if the GPU type has NVLinks.
enum class MissingNvLinks : std::uint8_t {
  kRefuse,  // error topology.no-nvlinks
  kAssume,  // assume all links of the GPU type, to every other GPU or to switches
  kNone,    // the machine has no NVLinks
};

// User input of an import, in addition to the other tool's output.
struct ImportOptions {
  std::string gpu{};                     // GPU type in topologies/gpus/<gpu>.yaml; empty: unknown
  std::optional<Bandwidth> nic_speed{};  // speed of ports for which the input has no speed
  // The NICs that connect nodes, by their names in the input. {"all"}: all NICs. Empty: the default
  // of the input format.
  std::vector<std::string> nics{};
  MissingNvLinks missing_nvlinks = MissingNvLinks::kRefuse;

  bool AllNics() const { return nics.size() == 1 && nics.front() == "all"; }
};

// Default latencies, for input formats without latencies. The defaults equal the latencies in
// topologies/*.yaml, and are similar to measured peer-to-peer latencies. The NIC's default is the
// specified port latency of InfiniBand HDR.
inline constexpr Time kNvLinkLatency = Nanoseconds(250);
inline constexpr Time kPcieLatency = Nanoseconds(150);
inline constexpr Time kCpuLatency = Nanoseconds(200);
inline constexpr Time kPortLatency = Nanoseconds(600);
inline constexpr const char* kLatencyNote =
    "the input has no latencies. Assumed latencies: NVLink 250 ns, PCIe 150 ns, links between CPUs "
    "200 ns, ports of NICs 600 ns";
inline constexpr const char* kFabricNote =
    "the input does not describe the network between nodes. Assumed: one non-blocking switch with "
    "the speed of the NICs' ports";

// Returns the bandwidth between two CPUs of a host, in one direction: links x transfer rate x bits
// per transfer, with the number of links of two-socket GPU servers. (The constants in NCCL's
// src/graph/topo.h are only for NCCL's search.) Unknown processors have the bandwidth of the
// slowest processor since 2017.
inline Bandwidth BetweenCpus(std::optional<topology::Processor> processor) {
  using topology::Processor;
  const auto links = [](int count, double gigatransfers, int bits) {
    constexpr double kBitsPerByte = 8;
    return Bandwidth::BytesPerSecond(
        static_cast<std::int64_t>(count * gigatransfers * 1e9 * bits / kBitsPerByte));
  };
  switch (processor.value_or(Processor::kIntelSkylake)) {
    case Processor::kIntelBroadwell:
      return links(2, 9.6, 16);  // QPI
    case Processor::kIntelSkylake:
      return links(2, 10.4, 16);  // UPI
    case Processor::kIntelSapphireRapids:
      return links(3, 16, 24);  // UPI 2.0
    case Processor::kIntelEmeraldRapids:
      return links(3, 20, 24);
    case Processor::kAmd:
      return links(3, 18, 16);  // xGMI of Rome and Milan; later processors have 32 GT/s
    case Processor::kArm:
      return Bandwidth::GigabytesPerSecond(6);  // as in NCCL, because there is no common link
    case Processor::kPower9:
      return Bandwidth::GigabytesPerSecond(64);  // X bus
  }
  return {};
}
inline const char* BetweenUnknownCpusNote() {
  return "the input does not specify the type of the CPUs. Assumed: two UPI links of 10.4 GT/s "
         "between the CPUs, 41.6 GB/s";
}

// Returns the default network, for inputs without a network.
inline topology::Fabric OneSwitch(Bandwidth port) {
  topology::Fabric fabric;
  fabric.kind = topology::FabricKind::kOneSwitch;
  fabric.link = {kPortLatency, port};
  return fabric;
}

// The XML in which NCCL describes a machine (NCCL_TOPO_DUMP_FILE and NCCL_TOPO_FILE), read as in
// NVIDIA/nccl, src/graph/xml.cc and topo.cc:
//
//   <system version="1">
//     <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143" ...>
//       <pci busid="0000:15:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" ...>
//         <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2330" ...>
//           <gpu dev="0" sm="90" rank="0" gdr="1">
//             <nvlink target="0000:07:00.0" count="4" tclass="0x068000"/>
//           </gpu>
//         </pci>
//         <pci busid="0000:1a:00.0" class="0x020700" ...>
//           <nic><net name="mlx5_0" dev="0" speed="400000" port="1" .../></nic>
//
//   - GPUs are numbered by rank (without ranks, by dev or position), and NICs by dev.
//   - A bridge with one device below it is treated as a wire. As in NCCL, a Broadcom switch below
//     another Broadcom switch becomes a part of the upper switch.
//   - speed is in Mbit/s. Only the fastest NICs are used, because nodes communicate over them.
//   - A PCIe device without speed or width has NCCL's default of 8 GT/s or 16 lanes.
//   - All CPUs of a host are linked with each other, at the bandwidth of their type.
//   - A file for NCCL_TOPO_FILE may lack NVLinks, because NCCL detects them. If the GPU type has
//     NVLinks, such a file is rejected, unless options.missing_nvlinks is set. With kAssume, every
//     GPU has all links of its GPU type. In a node of up to four GPUs, a GPU's links are divided
//     equally among the other GPUs, if possible. Otherwise, all links lead to one switch that
//     represents all switches.
//
// Irrelevant attributes that NCCL writes are ignored; other unknown attributes are listed in the
// notes.
//
// Errors:
//   xml.syntax: also for a truncated text; the message has the element without an end tag
//   xml.too-deep
//   topology.not-nccl: another kind of document
//   topology.bad-attribute
//   topology.unknown-gpu: unknown GPU type
//   topology.no-speed: a NIC without a speed
//   topology.impossible: a link of zero bandwidth, a GPU without a path to a NIC, a topology in
//     several parts, or two devices with one bus id
//   topology.no-nvlinks
//   topology.unknown-nic: options.nics contains a missing NIC

Result<ImportedTopology> ParseNcclTopology(std::string_view text, const std::string& file,
                                           const ImportOptions& options);

// The output of `nvidia-smi topo -m`: a matrix of GPUs and NICs, and a legend with the names of
// NICs. The matrix has the class of the route between each pair (NV18, PIX, PXB, PHB, NODE, SYS),
// and the CPU and NUMA affinity of the GPUs. Tabs, blanks or bars separate the columns. Terminal
// escape sequences and prefixes of pasted lines ("> ", "# ") are ignored. Old releases print the
// NICs' names in the matrix.
//
//   PIX, PXB   one PCIe switch (or a tree of switches, treated as one)
//   PHB, NODE  one CPU
//   SYS        different CPUs, all linked with each other
//   NV#        # NVLinks: direct links, or links to NVSwitches (treated as one switch) if a GPU
//              would need more direct links than it has
//
// If any NIC shares a PCIe switch with a GPU, all other NICs are omitted, because such NICs usually
// serve storage or management. options.nics selects other NICs, by their names in the matrix or
// legend.
//
// The output contains neither the GPU type nor speeds. options.gpu is therefore required, and also
// options.nic_speed if there are NICs.
//
// Errors: topology.not-smi (no matrix), topology.bad-matrix (a row of wrong length, an unknown
// class, an asymmetric matrix), topology.unknown-gpu, topology.no-speed, topology.unknown-nic.

Result<ImportedTopology> ParseNvidiaSmiTopology(std::string_view text, const std::string& file,
                                                const ImportOptions& options);

}  // namespace stepcast::formats
