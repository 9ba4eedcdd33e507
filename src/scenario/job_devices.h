#pragma once

#include <cstdint>
#include <string>

#include "src/plan/request.h"
#include "src/scenario/scenario_file.h"
#include "tl/expected.hpp"

// On which of a topology's GPUs a job runs (`cluster.devices`). It has the fewest nodes that hold
// as many, the first ones, and of each node equally many GPUs, the first ones: four GPUs of a node
// of eight are gpu0 to gpu3; twelve are the first six of two nodes, as `torchrun --nproc-per-node
// 6` has them. Nodes stay alike, because NCCL gives all of a communicator's nodes what the poorest
// of them has, and launchers start as many processes on each.
namespace stepcast::scenario {

// A topology's nodes, or those that a job has of it.
struct NodesOfGpus {
  std::int64_t nodes = 1;
  std::int64_t gpus = 1;  // of each
  friend bool operator==(const NodesOfGpus&, const NodesOfGpus&) = default;
};

// How many GPUs a job has of a topology's `all`. `plan`: as many as the axes multiply to; where the
// data-parallel degree is left out, as many as there can be. More than `all` only where a number
// says so: a plan that needs more is the plan's fault (legality.h).
std::int64_t DevicesOfJob(const DevicesRequest& devices, const plan::Request& request,
                          std::int64_t all);

// Why a job cannot have so many GPUs.
struct NoPlace {
  std::string code, message, hint;
};

// The job's part of a topology. Errors: scenario.too-many-devices; scenario.unequal-nodes, where
// they do not divide among the nodes; scenario.split-tensor-group, where ranks that share layers
// would not lie in one node, though `tensor` of them fit into one.
tl::expected<NodesOfGpus, NoPlace> PlaceJob(std::int64_t devices, const NodesOfGpus& topology,
                                            std::int64_t tensor);

}  // namespace stepcast::scenario
