#pragma once

#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibrate/campaign.h"
#include "src/runtime/job.h"

namespace stepcast::calibrate {

// Groups of ranks for measurements of collectives.

// Disjoint groups of equal size that together contain all ranks. The groups communicate at the same
// time, as in a training step.
struct GroupShape {
  int ranks = 0;  // number of ranks per group
  int nodes = 0;  // number of nodes that each group spans
  std::vector<std::vector<int>> groups;
};

// Returns the shapes to measure, given the node of each rank. The first shapes are all ranks, the
// ranks of each node, and one rank of each node. For every divisor d of the number of ranks, the
// next shapes are groups of d neighbors and groups of ranks that are d apart. Hybrid sharding uses
// these groups for shards and replicas. Each pair of ranks and nodes occurs once. Groups of one
// rank are omitted.
std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank);

// Measures kernels for sections of the profile. All ranks call these functions together.

// Measures the same matrix multiplication repeatedly during the calibration, to detect changes of
// the clock. (Clock changes hardly affect memory-bound kernels.)
runtime::Attempt<void> MeasureReference(Campaign& campaign);

runtime::Attempt<void> MeasureLaunch(Campaign& campaign);
runtime::Attempt<void> MeasureMemory(Campaign& campaign);
runtime::Attempt<void> MeasureGemm(Campaign& campaign, DataType type, ProductLayout layout);

// Measures the sustained clock. In a short measurement, matrix multiplications run at a clock that
// the board's power limit does not allow for long. The stored power draw is the draw at full clock
// that explains the sustained clock (cost::SustainedClock): clock^3 = (limit - idle) / draw. Does
// nothing if the device does not report its power.
runtime::Attempt<void> MeasureSustainedClock(Campaign& campaign);

// Measures attention. `kind` is kAttention or kAttentionGradient.
runtime::Attempt<void> MeasureAttention(Campaign& campaign, DataType type, KernelKind kind);
runtime::Attempt<void> MeasureOptimizer(Campaign& campaign);

}  // namespace stepcast::calibrate
