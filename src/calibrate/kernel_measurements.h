#pragma once

#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibrate/campaign.h"
#include "src/runtime/job.h"

namespace stepcast::calibrate {

// The groups of ranks on which collectives are measured.

// Disjoint groups of one shape that together contain all ranks. They communicate at the same time,
// like the groups of a training step.
struct GroupShape {
  int ranks = 0;  // of each group
  int nodes = 0;  // spanned by each group
  std::vector<std::vector<int>> groups;
};

// The shapes for ranks on these nodes (node of each rank): all ranks; the ranks of each node; one
// rank of each node. Then, for every divisor of the number of ranks, neighbors in groups of that
// size, and ranks that far apart (the shard and replica groups of hybrid sharding). A profile has
// one table for each pair of ranks and nodes, so each pair occurs once. Groups of one rank are left
// out.
std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank);

// Measure kernels for sections of the profile. All ranks call these together.

// Repeats equal work during the calibration, whose time should not change. It is a product, since
// clock changes affect a product's time and hardly affect memory traffic.
runtime::Attempt<void> MeasureReference(Campaign& campaign);

runtime::Attempt<void> MeasureLaunch(Campaign& campaign);
runtime::Attempt<void> MeasureMemory(Campaign& campaign);
runtime::Attempt<void> MeasureGemm(Campaign& campaign, DataType type, ProductLayout layout);

// Products in a short measurement run at a clock that the board's power limit does not allow for
// long. This measures the sustained clock, as the power draw at full clock that would cause it
// (cost::SustainedClock): clock = cube root of (limit - idle) / products. No effect if the device
// does not report its power.
runtime::Attempt<void> MeasureSustainedClock(Campaign& campaign);

// `kind` is kAttention or kAttentionGradient.
runtime::Attempt<void> MeasureAttention(Campaign& campaign, DataType type, KernelKind kind);
runtime::Attempt<void> MeasureOptimizer(Campaign& campaign);

}  // namespace stepcast::calibrate
