#pragma once

#include <cstdint>
#include <vector>

#include "src/nccl/node.h"
#include "src/nccl/path_type.h"

// The links of a node and the paths over them (NVIDIA/nccl, src/graph/paths.cc).
namespace stepcast::nccl {

// One direction of a link. Link i and link i ^ 1 are the two directions of one link.
struct Link {
  std::int64_t bandwidth =
      0;  // MB/s: whole numbers, so that taking and giving back leaves no trace
  bool pcie = false;
  bool nvlink = false;
  bool slow_receiver = false;  // into a GPU before Ampere: what the network writes there costs an
                               // eighth of it in the other direction
};

struct Path {
  PathType type = PathType::kDisconnected;
  double bandwidth = 0;    // GB/s, of its narrowest link
  std::vector<int> links;  // from end to end
  bool from_gpu = false;
  // Intel's PCIe root cuts what GPUs send each other into 64-byte packets: 1.2 of the bytes.
  bool through_intel_root = false;

  int hops() const { return static_cast<int>(links.size()); }
};

struct Fabric {
  std::vector<Link> links;
  std::vector<std::vector<Path>> gpu_to_gpu;  // [from][to]
  std::vector<std::vector<Path>> gpu_to_nic;
  std::vector<std::vector<Path>> nic_to_gpu;
  std::vector<Path> gpu_to_nvswitch;  // empty without NVSwitch
  std::vector<Path> nvswitch_to_gpu;

  bool has_nvswitch() const { return !gpu_to_nvswitch.empty(); }
};

// Network cards are left out where `with_network` is false: NCCL does not look at them when all
// ranks are in one node. Where GPUs reach a card's own GPU over NVLink, and that is faster than
// their own way or avoids the processor, they send through it (PXN).
Fabric MakeFabric(const Node& node, bool with_network);

}  // namespace stepcast::nccl
