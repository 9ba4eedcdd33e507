#pragma once

#include "src/nccl/communicator.h"
#include "src/nccl/terms.h"

namespace stepcast::nccl {

// The part of the tuner's prediction that does not depend on the size, in microseconds
// (NVIDIA/nccl, src/graph/tuning.cc). Meaningful where AlgorithmBandwidth is above 0.
double AlgorithmLatency(const Communicator& communicator, Function function, Algorithm algorithm,
                        Protocol protocol);

}  // namespace stepcast::nccl
