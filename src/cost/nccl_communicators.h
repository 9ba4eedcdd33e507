#pragma once

#include <memory>
#include <vector>

#include "src/nccl/communicator.h"
#include "src/nccl/node.h"
#include "src/nccl/version.h"

namespace stepcast::cost {

// The communicator of all GPUs of `nodes` such machines, as the tuner needs it: without the paths
// of its channels. NCCL's search takes up to 70 ms, so its result is kept for the life of the
// process, one for each kind of machine; threads may ask at once.
nccl::Communicator FindCommunicator(const nccl::Node& node, int nodes, nccl::Version version);

}  // namespace stepcast::cost
