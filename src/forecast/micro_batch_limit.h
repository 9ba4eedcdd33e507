#pragma once

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// The largest micro-batch that fits in memory.
namespace stepcast::forecast {

// Most bytes that the program has allocated at once in its host order, every release taking effect
// where it stands. No run needs less: what other streams still use, and what the allocator caches
// or loses in pieces, only comes on top. Lowering writes the same instructions for micro-batches of
// any size, with buffers that do not shrink as they grow, so this never falls with the micro-batch.
Bytes LeastMemory(const program::Program& program);

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
// every micro-batch above `largest` needs more than there is, if only by LeastMemory. Requires a
// model whose activations grow with the micro-batch (no layer list). Errors: those of forecasts.
Result<MicroBatchLimit> FindMicroBatchLimit(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
