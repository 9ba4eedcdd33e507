#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/rates.h"
#include "src/cost/nccl_price.h"
#include "src/nccl/communicator.h"
#include "src/nccl/node.h"
#include "src/nccl/version.h"
#include "src/scenario/scenario.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {

// How a scenario runs NCCL; pointers into the scenario, which must outlive it. None where NCCL is
// not modelled: on flat clusters, on devices that are not CUDA's, with profiles without `links` or
// `collective_law`.
//
// software.nccl: the newest known release that is not newer; 2.21 for those before it.
// software.driver: from 530 on (CUDA 12.1) there is multicast through NVSwitch.
// cluster.collective_algorithm: `ring` allows rings alone, `tree` trees for all-reduce; where
// communication.nccl_algo is given, that counts instead.
std::optional<NcclSetting> NcclSettingOf(const scenario::Scenario& scenario);

// Links of the first GPU to other GPUs or switches (PCIe: to CPUs, too).
struct GpuLinks {
  int count = 0;
  Bandwidth bandwidth;  // of all of them, one direction
};
GpuLinks LinksOfAGpu(const topology::NodeType& node, topology::LinkKind kind);

// A node of a topology as NCCL detects it, with the GPUs in `gpus` alone (indices in the node, in
// order of rank) but with all of its network cards. `port`: of a card to the fabric, one direction;
// zero without fabric. NCCL's own figures replace those of the topology where it has some: an
// NVLink counts by the GPU's generation, PCIe as 0.75 of its raw bandwidth.
//
// A GPU or card that hangs on several PCIe switches counts on the first, and switches that hang on
// others are part of those. NVLink between GPU and
// processor (C2C) counts as the GPU's way to the processor.
nccl::Node NcclNode(const topology::NodeType& node, int compute_capability, Bandwidth port,
                    std::span<const int> gpus);

// The communicator of all GPUs of `nodes` such machines, as the tuner needs it: without the paths
// of its channels. NCCL's search takes up to 70 ms, so its result is kept for the life of the
// process, one for each kind of machine; threads may ask at once.
nccl::Communicator FindCommunicator(const nccl::Node& node, int nodes, nccl::Version version);

}  // namespace stepcast::cost
