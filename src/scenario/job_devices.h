#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/request.h"
#include "src/scenario/scenario.h"
#include "src/scenario/scenario_file.h"
#include "src/topology/cluster.h"
#include "src/topology/node_type.h"
#include "tl/expected.hpp"

namespace stepcast::scenario {

// On which of a topology's GPUs a job runs (`cluster.devices`). It has the fewest nodes that hold
// as many, the first ones, and of each node equally many GPUs, the first ones: four GPUs of a node
// of eight are gpu0 to gpu3; twelve are the first six of two nodes, as `torchrun --nproc-per-node
// 6` has them. Nodes stay alike, because NCCL gives all of a communicator's nodes what the poorest
// of them has, and launchers start as many processes on each.

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

// The devices that a scenario names as slow (`cluster.slow_devices`), with their ranks, by rank.
// One that the topology's `nodes` nodes do not have, or that is named twice, is reported and left
// out; one that the job leaves idle is left out.
std::vector<SlowDevice> FindSlowDevices(const std::vector<SlowDevice>& named,
                                        const topology::Cluster& cluster, int nodes,
                                        Diagnostics& diagnostics);

// Clusters of several kinds of nodes (Scenario::other_nodes). Kind 0 is that of the first nodes.
//
// What a rank does by itself is priced on its own kind of node. So is its side of what it does with
// others, as if all nodes were of that kind; and because they finish together, that takes what it
// takes on the slower kind: rings and trees go at the rate of their slowest link.

int KindCount(const Scenario& scenario);
// Of the node that a rank is on.
int KindOfRank(const Scenario& scenario, int rank);
// The kinds that ranks are of, ascending, each once.
std::vector<int> KindsOf(const Scenario& scenario, std::span<const int> ranks);
// All nodes, kind by kind. Requires a cluster that is not flat, and lives as long as the scenario.
std::vector<topology::NodesOfType> NodesOf(const Scenario& scenario);
// The scenario if all nodes of its cluster were of that kind.
Scenario OfKind(const Scenario& scenario, int kind);

}  // namespace stepcast::scenario
