#pragma once

#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/scenario.h"
#include "src/topology/cluster.h"

namespace stepcast::scenario {

// The devices that a scenario names as slow (`cluster.slow_devices`), with their ranks, by rank.
// One that the topology's `nodes` nodes do not have, or that is named twice, is reported and left
// out; one that the job leaves idle is left out.
std::vector<SlowDevice> FindSlowDevices(const std::vector<SlowDevice>& named,
                                        const topology::Cluster& cluster, int nodes,
                                        Diagnostics& diagnostics);

}  // namespace stepcast::scenario
