#pragma once

#include <vector>

#include "src/topology/device.h"
#include "src/topology/node_type.h"

// Converts individual links, as a machine reports them, to the rules of a topology file.
namespace stepcast::topology {

// A pair of linked devices in a node. The link has both directions.
struct LinkedPair {
  LinkKind kind = LinkKind::kPcie;
  DeviceKind from_kind = DeviceKind::kGpu;
  int from = 0;
  DeviceKind to_kind = DeviceKind::kCpu;
  int to = 0;
  int count = 1;
  LinkSpec link;
};

// Returns rules whose PairsOf() are exactly these pairs. If possible, there is one rule per kind of
// link, otherwise one rule for each set of devices with the same neighbors. Rules are in the order
// in which their kind of link first appears. `pairs` must be distinct.
std::vector<LinkRule> RulesOf(const std::vector<LinkedPair>& pairs);

}  // namespace stepcast::topology
