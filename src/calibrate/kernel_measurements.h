#pragma once

#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/calibrate/campaign.h"
#include "src/runtime/job.h"

namespace stepcast::calibrate {

// Groups of ranks for measurements of collectives.

// Disjoint groups of equal size that together contain all ranks and communicate concurrently, as in
// a training step.
struct GroupShape {
  int ranks = 0;  // number of ranks per group
  int nodes = 0;  // number of nodes that each group spans
  std::vector<std::vector<int>> groups;
};

// Returns the group shapes to measure, given the node of each rank: all ranks, the ranks of each
// node, and one rank of each node. For every divisor d of the number of ranks, also groups of d
// neighbors, and groups of ranks that are d apart (shards and replicas of hybrid sharding). Each
// combination of `ranks` and `nodes` occurs once. Groups of one rank are omitted.
std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank);

// Measures kernels for the profile. All ranks call these functions together.

// Measures one matrix multiplication repeatedly during the calibration, to detect changes of the
// clock, which hardly affect memory-bound kernels.
runtime::Attempt<void> MeasureReference(Campaign& campaign);

runtime::Attempt<void> MeasureLaunch(Campaign& campaign);
runtime::Attempt<void> MeasureMemory(Campaign& campaign);
runtime::Attempt<void> MeasureGemm(Campaign& campaign, DataType type, ProductLayout layout);

// Measures the sustained clock: in long runs, the board's power limit reduces the clock of matrix
// multiplications. Stores the power draw at full clock that is consistent with the sustained clock
// (cost::SustainedClock): clock^3 = (limit - idle) / draw. Does nothing if the device does not
// report its power.
runtime::Attempt<void> MeasureSustainedClock(Campaign& campaign);

// Measures attention. `kind` is kAttention or kAttentionGradient.
runtime::Attempt<void> MeasureAttention(Campaign& campaign, DataType type, KernelKind kind);
runtime::Attempt<void> MeasureOptimizer(Campaign& campaign);

}  // namespace stepcast::calibrate
