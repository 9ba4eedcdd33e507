#pragma once

#include <vector>

#include "src/topology/device.h"
#include "src/topology/node_type.h"

// From links one by one, as a machine lists them, to the rules of a topology file.
namespace stepcast::topology {

// What joins two devices of a node, in both directions.
struct LinkedPair {
  LinkKind kind = LinkKind::kPcie;
  DeviceKind from_kind = DeviceKind::kGpu;
  int from = 0;
  DeviceKind to_kind = DeviceKind::kCpu;
  int to = 0;
  int count = 1;
  LinkSpec link;
};

// Rules whose PairsOf() are exactly these pairs: one for all links that are alike in everything
// where that can be said in one, else one for each set of devices that has the same neighbours. In
// the order in which a kind of link first comes up. No pair may come up twice.
std::vector<LinkRule> RulesOf(const std::vector<LinkedPair>& pairs);

}  // namespace stepcast::topology
