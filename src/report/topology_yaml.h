#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/topology/node_type.h"

namespace stepcast::report {

// A topology as a file that scenario::LoadTopology reads back to the same values. `comment` becomes
// its first lines; `sources` say where the figures come from. The node type's GPU memory, which the
// GPU's data sheet has, is not written.
std::string TopologyYaml(const std::string& comment, const std::string& name,
                         const std::vector<std::string>& sources,
                         const topology::NodeType& node_type,
                         const std::optional<topology::Fabric>& fabric);

}  // namespace stepcast::report
