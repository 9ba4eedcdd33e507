#pragma once

#include <string>

#include "src/topology/cluster.h"

namespace stepcast::report {

// `topology show --json`: {"stepcast": 1, "topology", "nodes", "gpus_per_node", "ranks", "gpu",
// "memory_bytes", "devices": [{"name", "kind"}], "links": [{"from", "to", "kind", "count",
// "latency_s", "bandwidth_bytes_per_s"}], "ring": {...}}. Links are listed once for each direction,
// bandwidths are those of all parallel links of a pair together; `ring` is what all ranks together
// have between them. A flat cluster has neither devices nor links, but "link".
std::string TopologyJson(const std::string& name, const topology::Cluster& cluster);

}  // namespace stepcast::report
