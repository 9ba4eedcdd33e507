#pragma once

#include <vector>

#include "src/base/collective_kind.h"
#include "src/calibration/calibration.h"

// Which measured table holds for a group.
namespace stepcast::calibration {

// The table for exactly this key, or null: groups of other shapes say nothing reliable.
const CollectiveTable* FindTable(const std::vector<CollectiveTable>& tables,
                                 CollectiveKind collective, int ranks, int nodes);

// For a group on a flat cluster, whose devices are nodes of their own, wherever they really are:
// the table for as many nodes as ranks, else the one for the most nodes among those for so many
// ranks, or null.
const CollectiveTable* FindTableOfFlatCluster(const std::vector<CollectiveTable>& tables,
                                              CollectiveKind collective, int ranks);

}  // namespace stepcast::calibration
