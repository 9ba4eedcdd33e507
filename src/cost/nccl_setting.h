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

// How a scenario runs NCCL. Pointers refer to the scenario, which must outlive the result. Nothing
// if NCCL is not modeled: flat clusters, non-CUDA devices, profiles without `links` or
// `collective_law`.
//
// software.nccl: the newest known release that is not newer; 2.21 for those before it.
// software.driver: from 530 on (CUDA 12.1), NVSwitch multicast is available.
// cluster.collective_algorithm: `ring` allows only rings, `tree` trees for all-reduce;
// communication.nccl_algo overrides it.
std::optional<NcclSetting> NcclSettingOf(const scenario::Scenario& scenario);

// The links of the first GPU to other GPUs or switches (PCIe: also to CPUs).
struct GpuLinks {
  int count = 0;
  Bandwidth bandwidth;  // of all of them, one direction
};
GpuLinks LinksOfAGpu(const topology::NodeType& node, topology::LinkKind kind);

// A node of a topology as NCCL detects it, with only the GPUs in `gpus` (indices in the node, in
// rank order) but all of its network cards. `port`: bandwidth from a card to the fabric, one
// direction; zero without fabric. NCCL's own figures replace those of the topology if it has any:
// NVLinks by the GPU's generation, PCIe as 0.75 of its raw bandwidth.
//
// A GPU or card on several PCIe switches is assigned to the first, and switches below others are
// merged into them. NVLink between GPU and processor (C2C) is the GPU's path to the processor.
nccl::Node NcclNode(const topology::NodeType& node, int compute_capability, Bandwidth port,
                    std::span<const int> gpus);

// Returns the communicator of all GPUs of `nodes` such machines, as the tuner needs it: without the
// paths of its channels. NCCL's search takes up to 70 ms, so results are cached for the life of the
// process, one for each kind of machine. Thread-safe.
nccl::Communicator FindCommunicator(const nccl::Node& node, int nodes, nccl::Version version);

}  // namespace stepcast::cost
