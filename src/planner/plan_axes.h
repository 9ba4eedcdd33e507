#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/framework.h"
#include "src/planner/layouts.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/scenario.h"

// The settings that a search varies by default within a layout, with the values of each
// (docs/planning.md).
namespace stepcast::planner {

// What values are derived from.
struct Surroundings {
  const scenario::Scenario& scenario;
  const Layout& layout;
  std::int64_t data_per_node = 1;           // of the layout's data-parallel ranks those in one node
  std::vector<std::int64_t> micro_batches;  // sizes that the layout can have
  bool overlaps = false;                    // LayoutRules::Overlaps
};

// Divisors of a rank's part of the global batch; the scenario's own where it has none, and for a layer
// list, whose times and activations are given for one micro-batch, whatever its size.
std::vector<std::int64_t> MicroBatchesOf(const scenario::Scenario& scenario, std::int64_t data);

// Of plans that tie the first wins, so the order is a part of the answer.
struct TriedSettings {
  // Micro-batch, recomputation and what else changes what ranks compute or keep.
  std::vector<SweepAxis> outer;
  // Groups of micro-batches, of which the default needs least memory, and the settings of data
  // parallelism that do something in the framework at the ZeRO stage: of those the kernels of a
  // micro-batch, and what is never released, know nothing.
  std::vector<SweepAxis> inner;
};
TriedSettings TriedIn(const Surroundings& around, plan::Framework framework, int stage);

}  // namespace stepcast::planner
