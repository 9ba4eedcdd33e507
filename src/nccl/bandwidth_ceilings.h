#pragma once

#include "src/nccl/cpu.h"
#include "src/nccl/generation.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// What a communicator cannot exceed, GB/s, by measurement of NCCL's authors (NVIDIA/nccl,
// src/graph/tuning.cc).
struct BandwidthCeilings {
  double ll = 0;  // bus bandwidth of all channels together
  // Of one search channel:
  double ring_ll128 = 0;
  double tree_ll128 = 0;
  double tree = 0;
  double nvls_tree = 0;
  // The part of the links that in-switch reduction reaches.
  double nvls_efficiency = 0;
};

// `oldest`: the GPUs' row. LL depends on it in one node, on the processors across several.
BandwidthCeilings CeilingsOf(Version version, Generation oldest, Cpu cpu, int nodes);

}  // namespace stepcast::nccl
