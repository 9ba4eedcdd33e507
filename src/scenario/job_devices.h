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

// The GPUs of a topology that a job uses (`cluster.devices`). The job uses as few nodes as
// possible, with the same number of GPUs on every node. Nodes and GPUs are used in ascending order.
// Four GPUs of an eight-GPU node are gpu0 to gpu3. Twelve GPUs are the first six of two nodes, as
// with `torchrun --nproc-per-node 6`.
//
// Every node must have the same number of the job's GPUs. Reasons: launchers start equally many
// processes on each node, and NCCL uses the resources of the weakest node on all nodes of a
// communicator.

// The nodes of a topology that a job uses.
struct NodesOfGpus {
  std::int64_t nodes = 1;
  std::int64_t gpus = 1;  // per node
  friend bool operator==(const NodesOfGpus&, const NodesOfGpus&) = default;
};

// Returns the number of the job's GPUs, out of `all` GPUs of the topology. If `devices` is `plan`,
// the result is the product of the plan's degrees along all axes. If the request does not contain
// the data-parallel degree, the largest possible degree is used. The result may exceed `all`;
// legality.h then reports an error.
std::int64_t DevicesOfJob(const DevicesRequest& devices, const plan::Request& request,
                          std::int64_t all);

// The reason why a job cannot use this number of GPUs.
struct NoPlace {
  std::string code, message, hint;
};

// Returns the part of a topology that the job uses. Errors:
//   scenario.too-many-devices
//   scenario.unequal-nodes: the GPUs cannot be divided equally among the nodes
//   scenario.split-tensor-group: a tensor-parallel group would be on several nodes, although
//     `tensor` ranks fit on one node
tl::expected<NodesOfGpus, NoPlace> PlaceJob(std::int64_t devices, const NodesOfGpus& topology,
                                            std::int64_t tensor);

// Returns the scenario's slow devices (`cluster.slow_devices`) with their ranks, ordered by rank.
// Reports and omits duplicate devices and devices outside the `nodes` nodes. Omits idle devices.
std::vector<SlowDevice> FindSlowDevices(const std::vector<SlowDevice>& named,
                                        const topology::Cluster& cluster, int nodes,
                                        Diagnostics& diagnostics);

// Clusters with several kinds of nodes (Scenario::other_nodes). The first nodes have kind 0.
//
// A rank's operations, except collectives, are priced on the rank's kind of node. A collective is
// priced once for each kind of node in its group, as if all nodes were of this kind. The collective
// has the longest of these times, because rings and trees run at the rate of their slowest link.

int KindCount(const Scenario& scenario);
// Returns the kind of node on which a rank runs.
int KindOfRank(const Scenario& scenario, int rank);
// Returns the distinct kinds of the ranks' nodes, in ascending order.
std::vector<int> KindsOf(const Scenario& scenario, std::span<const int> ranks);
// Returns all nodes, kind by kind. The cluster must not be flat. The scenario must outlive the
// result.
std::vector<topology::NodesOfType> NodesOf(const Scenario& scenario);
// Returns the scenario as if all nodes of its cluster were of kind `kind`.
Scenario OfKind(const Scenario& scenario, int kind);

}  // namespace stepcast::scenario
