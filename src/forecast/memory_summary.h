#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The textbook memory of one rank by category (Rajbhandari et al. 2020, arXiv 1910.02054;
// activations: Korthikanti et al. 2022, arXiv 2205.05198), to be read beside the simulated peak.
// Bytes per parameter with bf16 parameters and gradients, AdamW (k = 12) and N = shard group:
//   stage 0: 2 + 2 + 12        stage 1: 2 + 2 + 12/N
//   stage 2: 2 + (2 + 12)/N    stage 3: (2 + 2 + 12)/N
// Gradients that accumulate in another type than the parameters' (FP32 accumulation) stand beside
// the 16-bit ones: 4 more per parameter, 4/N where gradients are sharded. Shards are counted
// without padding; what does not divide rounds up to a byte.
BytesByCategory MemoryFormula(const scenario::Scenario& scenario);

// Memory of a scenario's devices and nodes beside what a program allocates.

// Device memory of a rank outside of its allocator, with so many communicators: nothing in textbook
// data parallelism, and nothing where the profile does not say.
Bytes OutsideAllocator(const scenario::Scenario& scenario, std::size_t communicators);

// By such a part what the framework's allocator holds on the scenario's devices may be above the
// forecast (uncertainty.h); 0 without an allocator.
double MemoryErrorOf(const scenario::Scenario& scenario, plan::Framework framework);

// The probability that a rank fits whose allocator holds so much, beside so much outside of it: one
// or zero in textbook data parallelism, of which all is known.
double FitProbabilityOf(const scenario::Scenario& scenario, Bytes reserved, Bytes outside);

// Where the program's memory comes from.
memory::Device DeviceOf(const scenario::Scenario& scenario, const program::Program& program);

// `usage`: of a replay of the program on that device.
MemoryForecast SummariseMemory(const scenario::Scenario& scenario, const program::Program& program,
                               const memory::Usage& usage);

// The largest micro-batch that fits in memory.

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
