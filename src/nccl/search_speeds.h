#pragma once

#include <span>

#include "src/nccl/generation.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The bandwidths per channel that the search tries, GB/s, highest first (NVIDIA/nccl,
// src/graph/search.cc): inside one node, or across nodes.
std::span<const double> SearchSpeeds(Version version, Generation generation, bool across_nodes);

}  // namespace stepcast::nccl
