#pragma once

#include <span>

#include "src/base/rates.h"
#include "src/nccl/node.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {

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

}  // namespace stepcast::cost
