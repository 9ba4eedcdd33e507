#pragma once

#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The latencies that the tuner adds up, in microseconds (NVIDIA/nccl, src/graph/tuning.cc). 0 where
// an algorithm does not use a protocol.
struct LatencyTable {
  ByAlgorithm<double> base;
  // Of one step over each kind of connection.
  ByAlgorithm<double> nvlink;
  ByAlgorithm<double> pcie;
  ByAlgorithm<double> network;
};

const LatencyTable& LatenciesOf(Version version);

}  // namespace stepcast::nccl
