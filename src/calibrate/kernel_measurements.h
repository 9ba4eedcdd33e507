#pragma once

#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibrate/campaign.h"
#include "src/runtime/job.h"

namespace stepcast::calibrate {

// Which groups of ranks collectives are measured on.

// Disjoint groups of one shape that together hold all ranks; they communicate at the same time, as
// the groups of a training step do.
struct GroupShape {
  int ranks = 0;  // of each group
  int nodes = 0;  // that each group spans
  std::vector<std::vector<int>> groups;
};

// By the node of each rank. All ranks; the ranks of each node; one rank of each node; then
// neighbours in groups of every divisor of the number of ranks, and ranks that far apart (the shard
// and replica groups of hybrid sharding). A profile has one table for each number of ranks and
// nodes, so each pair comes once. Groups of one rank are left out.
std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank);

// What kernels cost: sections of the profile. All ranks call these together.

// The same work again and again through the calibration: what it takes should not change. A
// product, because clocks change its time, and that of memory traffic hardly.
runtime::Attempt<void> MeasureReference(Campaign& campaign);

runtime::Attempt<void> MeasureLaunch(Campaign& campaign);
runtime::Attempt<void> MeasureMemory(Campaign& campaign);
runtime::Attempt<void> MeasureGemm(Campaign& campaign, DataType type, ProductLayout layout);

// Products in a short measurement run at a clock that the board's power does not allow for long.
// What a long run holds, as the draw at full clock that would lead to it (cost::SustainedClock):
// clock = cube root of (limit - idle) / products. Nothing where the device does not tell its draw.
runtime::Attempt<void> MeasureSustainedClock(Campaign& campaign);

// `kind`: kAttention or kAttentionGradient.
runtime::Attempt<void> MeasureAttention(Campaign& campaign, DataType type, KernelKind kind);
runtime::Attempt<void> MeasureOptimizer(Campaign& campaign);

}  // namespace stepcast::calibrate
