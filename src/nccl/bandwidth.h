#pragma once

#include "src/nccl/communicator.h"
#include "src/nccl/terms.h"

namespace stepcast::nccl {

// The algorithm bandwidth that the tuner expects, GB/s: bytes over time, without latency. 0 where
// the algorithm does not exist for the function, or not on this communicator (NVIDIA/nccl,
// src/graph/tuning.cc). Before any user setting and before the rules about LL128.
double AlgorithmBandwidth(const Communicator& communicator, Function function, Algorithm algorithm,
                          Protocol protocol);

}  // namespace stepcast::nccl
