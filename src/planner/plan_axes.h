#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/framework.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/scenario.h"

// The settings that a search varies by default, with the values of each (docs/planning.md).
namespace stepcast::planner {

// What values are derived from.
struct Surroundings {
  const scenario::Scenario& scenario;
  std::int64_t data = 1;           // ranks of the data axis
  std::int64_t data_per_node = 1;  // of them those in one node
  std::int64_t context = 1;        // ranks that have parts of a sequence, and share states
  bool tensor = false;             // layers are divided
  bool pipeline = false;           // there is one
};

// Micro-batch, recomputation, and the settings of data parallelism that do something in the
// framework at the ZeRO stage. Of plans that tie the first wins, so the order is a part of the
// answer.
std::vector<SweepAxis> TriedAxes(const Surroundings& around, plan::Framework framework, int stage);

}  // namespace stepcast::planner
