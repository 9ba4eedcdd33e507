#pragma once

#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/topology/cluster.h"
#include "src/topology/link_load.h"

// The output of `topology show --links`: how much of a collective crosses each link.
namespace stepcast::report {

// Links that are alike and carry the same share a line; the busiest come first.
std::string LinkLoadText(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size,
                         const std::vector<topology::LinkLoad>& loads);

// {"stepcast": 1, "topology", "op", "algorithm": "ring", "size_bytes", "ranks", "nodes", "links":
// [{"from", "to", "kind", "count", "bandwidth_bytes_per_s", "bytes", "time_s",
// "share_of_slowest"}]}, one entry for each link and direction of the first node and the fabric.
std::string LinkLoadJson(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size,
                         const std::vector<topology::LinkLoad>& loads);

}  // namespace stepcast::report
