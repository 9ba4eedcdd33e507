#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/rates.h"
#include "src/cost/nccl_price.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/node.h"
#include "src/nccl/version.h"
#include "src/scenario/scenario.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {

// Returns how a scenario runs NCCL. Pointers in the result refer to the scenario, which must
// outlive it. None if NCCL is not modeled: for flat clusters, non-CUDA devices, and profiles
// without `links` or `collective_law`.
//   software.nccl: the newest known release that is not newer, or 2.21 for earlier releases.
//   software.driver: from 530 on (CUDA 12.1), NVSwitch multicast is available.
//   cluster.collective_algorithm: `ring` allows only rings, and `tree` only trees for all-reduce;
//     communication.nccl_algo overrides it.
std::optional<NcclSetting> NcclSettingOf(const scenario::Scenario& scenario);

// The links of the first GPU to other GPUs or to switches. PCIe links also lead to CPUs.
struct GpuLinks {
  int count = 0;
  Bandwidth bandwidth;  // of all of them, one direction
};
GpuLinks LinksOfAGpu(const topology::NodeType& node, topology::LinkKind kind);

// Returns a node of a topology as NCCL detects it. The node has only the GPUs in `gpus` (indices in
// the node, in rank order), but all of its network cards. `port` is the bandwidth from a card to
// the fabric in one direction; zero without a fabric.
//
// If NCCL has its own figures, they replace the topology's figures: NVLinks by the GPU's
// generation, and PCIe as 0.75 of its raw bandwidth. A GPU or card on several PCIe switches is
// assigned to the first one, and switches below others are merged into them. NVLink between GPU and
// processor (C2C) is the GPU's path to the processor.
nccl::Node NcclNode(const topology::NodeType& node, int compute_capability, Bandwidth port,
                    std::span<const int> gpus);

// Returns the communicator of all GPUs of `nodes` such machines, without the paths of its channels,
// which the tuner does not need. NCCL's search takes up to 70 ms, so results are cached for the
// life of the process, one for each kind of machine. Thread-safe.
nccl::Communicator FindCommunicator(const nccl::Node& node, int nodes, nccl::Version version);

}  // namespace stepcast::cost
