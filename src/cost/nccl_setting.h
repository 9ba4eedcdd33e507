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

// Returns the scenario's NCCL settings. The result has pointers into the scenario, which must
// outlive it. None if NCCL is not modeled: for flat clusters, devices other than CUDA devices, and
// profiles without `links` or `collective_law`.
//   software.nccl: the newest known release that is not newer than this value, otherwise 2.21.
//   software.driver: NVSwitch multicast is available from 530 on (CUDA 12.1).
//   cluster.collective_algorithm: `ring` allows only rings, and `tree` only trees for all-reduce;
//     communication.nccl_algo overrides it.
std::optional<NcclSetting> NcclSettingOf(const scenario::Scenario& scenario);

// The links of a node's first GPU to other GPUs or to switches. PCIe links also connect to CPUs.
struct GpuLinks {
  int count = 0;
  Bandwidth bandwidth;  // sum over the links, one direction
};
GpuLinks LinksOfAGpu(const topology::NodeType& node, topology::LinkKind kind);

// Returns a node of a topology as NCCL detects it. The node has only the GPUs in `gpus` (indices in
// the node, in rank order), but all network cards. `port` is the bandwidth from a card to the
// fabric in one direction, or zero without a fabric.
//
// NCCL's constants replace the topology's values for NVLink bandwidth (by GPU generation) and PCIe
// bandwidth (0.75 of the raw value). A GPU or card on several PCIe switches is assigned to the
// first. A switch below another switch is merged into it. NVLink between GPU and CPU (C2C) is the
// GPU's path to the CPU.
nccl::Node NcclNode(const topology::NodeType& node, int compute_capability, Bandwidth port,
                    std::span<const int> gpus);

// Returns the communicator of all GPUs of `nodes` nodes like `node`, without channel paths. NCCL's
// search takes up to 70 ms, so results are cached for the lifetime of the process. Thread-safe.
nccl::Communicator FindCommunicator(const nccl::Node& node, int nodes, nccl::Version version);

}  // namespace stepcast::cost
