#pragma once

#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibrate/campaign.h"
#include "src/runtime/job.h"

namespace stepcast::calibrate {

// The groups of ranks on which collectives are measured.

// Disjoint groups of one shape that together contain all ranks. The groups communicate at the same
// time, as in a training step.
struct GroupShape {
  int ranks = 0;  // per group
  int nodes = 0;  // spanned by each group
  std::vector<std::vector<int>> groups;
};

// Returns the shapes to measure, given the node of each rank. First come all ranks, the ranks of
// each node, and one rank of each node. Then, for every divisor d of the number of ranks, come
// groups of d neighbors, and groups of ranks that are d apart. Hybrid sharding uses such groups for
// shards and replicas. A profile has one table for each pair of ranks and nodes, so each pair
// occurs once. Groups of one rank are omitted.
std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank);

// These functions measure kernels for sections of the profile. All ranks call them together.

// Measures the same work repeatedly during the calibration, to check that its time does not change.
// The work is a matrix product, because clock changes affect products but hardly affect memory
// traffic.
runtime::Attempt<void> MeasureReference(Campaign& campaign);

runtime::Attempt<void> MeasureLaunch(Campaign& campaign);
runtime::Attempt<void> MeasureMemory(Campaign& campaign);
runtime::Attempt<void> MeasureGemm(Campaign& campaign, DataType type, ProductLayout layout);

// Measures the sustained clock. In a short measurement, products run at a clock that the board's
// power limit does not allow for long. This function stores the power draw at full clock that would
// cause the sustained clock (cost::SustainedClock). The clock is the cube root of (limit - idle) /
// products. Does nothing if the device does not report its power.
runtime::Attempt<void> MeasureSustainedClock(Campaign& campaign);

// Measures attention. `kind` is kAttention or kAttentionGradient.
runtime::Attempt<void> MeasureAttention(Campaign& campaign, DataType type, KernelKind kind);
runtime::Attempt<void> MeasureOptimizer(Campaign& campaign);

}  // namespace stepcast::calibrate
