#pragma once

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// The largest micro-batch that fits in memory.
namespace stepcast::forecast {

struct MicroBatchLimit {
  // Sequences; 0: not even one fits.
  std::int64_t largest = 0;
  // The largest one is not that of the memory but of what a plan may say (plan/legality.h).
  bool of_the_plan = false;
  // Of the micro-batch `largest` (of one sequence where that is 0).
  MemoryForecast memory;
  // Of one sequence more; meaningless with `of_the_plan`, and where `largest` is 0.
  MemoryForecast beyond;
};

// The scenario's own micro-batch size does not matter, its number of micro-batches stays. Exact:
// every micro-batch above `largest` needs more than there is, if only by memory::PeakInHostOrder:
// lowering writes the same instructions for micro-batches of any size, with buffers that do not
// shrink as they grow, so this bound never falls with the micro-batch. Requires a
// model whose activations grow with the micro-batch (no layer list). Errors: those of forecasts.
Result<MicroBatchLimit> FindMicroBatchLimit(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
