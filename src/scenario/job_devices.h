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

// The GPUs of a topology that a job uses (`cluster.devices`). The job gets the fewest nodes that
// can hold its GPUs, starting with the first, and the same number of GPUs of each, starting with
// the first. Four GPUs of a node of eight are gpu0 to gpu3. Twelve are the first six of two nodes,
// as with `torchrun --nproc-per-node 6`. Nodes stay alike, because NCCL limits all nodes of a
// communicator to the poorest one, and launchers start the same number of processes on each.

// A topology's nodes, or the part of them that a job uses.
struct NodesOfGpus {
  std::int64_t nodes = 1;
  std::int64_t gpus = 1;  // per node
  friend bool operator==(const NodesOfGpus&, const NodesOfGpus&) = default;
};

// The number of GPUs of the job, out of `all` of the topology. `plan`: the product of the axes; if
// the data-parallel degree is not given, as many as possible. The result exceeds `all` only if a
// number says so; a plan that needs more is an error of the plan (legality.h).
std::int64_t DevicesOfJob(const DevicesRequest& devices, const plan::Request& request,
                          std::int64_t all);

// Why a job cannot have this number of GPUs.
struct NoPlace {
  std::string code, message, hint;
};

// The job's part of a topology. Errors: scenario.too-many-devices; scenario.unequal-nodes, if the
// GPUs do not divide among the nodes; scenario.split-tensor-group, if ranks that share layers would
// not be in one node although `tensor` of them fit into one.
tl::expected<NodesOfGpus, NoPlace> PlaceJob(std::int64_t devices, const NodesOfGpus& topology,
                                            std::int64_t tensor);

// The scenario's slow devices (`cluster.slow_devices`) with their ranks, ordered by rank. A device
// that the `nodes` nodes do not have, or that is named twice, is reported and omitted; an idle
// device is omitted.
std::vector<SlowDevice> FindSlowDevices(const std::vector<SlowDevice>& named,
                                        const topology::Cluster& cluster, int nodes,
                                        Diagnostics& diagnostics);

// Clusters with several kinds of nodes (Scenario::other_nodes). Kind 0 is that of the first nodes.
//
// A rank's own work is priced on its own kind of node. So is its side of joint work, as if all
// nodes were of that kind. Joint work then takes the longest of these prices, because its ranks
// finish together: rings and trees run at the rate of their slowest link.

int KindCount(const Scenario& scenario);
// The kind of the node that a rank is on.
int KindOfRank(const Scenario& scenario, int rank);
// The distinct kinds of the ranks, ascending.
std::vector<int> KindsOf(const Scenario& scenario, std::span<const int> ranks);
// All nodes, kind by kind. Requires a cluster that is not flat. Valid as long as the scenario.
std::vector<topology::NodesOfType> NodesOf(const Scenario& scenario);
// The scenario as if all nodes of its cluster were of that kind.
Scenario OfKind(const Scenario& scenario, int kind);

}  // namespace stepcast::scenario
