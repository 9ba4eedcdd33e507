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

// Returns the textbook memory of one rank by category, for comparison with the simulated peak
// (Rajbhandari et al. 2020, arXiv 1910.02054; activations: Korthikanti et al. 2022, arXiv
// 2205.05198). Bytes per parameter with bf16 parameters and gradients, AdamW (k = 12) and shard
// groups of N ranks:
//   stage 0: 2 + 2 + 12
//   stage 1: 2 + 2 + 12/N
//   stage 2: 2 + (2 + 12)/N
//   stage 3: (2 + 2 + 12)/N
// Gradients that accumulate in FP32 are added to the 16-bit gradients: 4 more bytes per parameter,
// or 4/N if gradients are sharded. Shards are counted without padding and rounded up to a byte.
BytesByCategory MemoryFormula(const scenario::Scenario& scenario);

// The memory on a scenario's devices and nodes that no program allocates.

// Returns the bytes of device memory outside the allocator of a rank that has `communicators`
// communicators. Zero in textbook data parallelism, and if the profile does not state this memory.
Bytes OutsideAllocator(const scenario::Scenario& scenario, std::size_t communicators);

// Returns the relative error with which the memory of the framework's allocator is forecast on the
// scenario's devices (uncertainty.h). 0 if there is no allocator.
double MemoryErrorOf(const scenario::Scenario& scenario, plan::Framework framework);

// Returns the probability that a rank fits if its allocator holds `reserved` bytes, and `outside`
// bytes are outside the allocator. In textbook data parallelism, where all memory is known, it is
// one or zero.
double FitProbabilityOf(const scenario::Scenario& scenario, Bytes reserved, Bytes outside);

// Returns the device memory from which the program allocates.
memory::Device DeviceOf(const scenario::Scenario& scenario, const program::Program& program);

// Summarizes the memory of one rank. `usage` must come from a replay of the program on the device
// that DeviceOf returns.
MemoryForecast SummariseMemory(const scenario::Scenario& scenario, const program::Program& program,
                               const memory::Usage& usage);

// The largest micro-batch that fits in memory.

struct MicroBatchLimit {
  // The largest number of sequences in a micro-batch; 0 if not even one sequence fits.
  std::int64_t largest = 0;
  // Whether the rules for legal plans (plan/legality.h), and not memory, limit `largest`.
  bool of_the_plan = false;
  // The memory with micro-batches of `largest` sequences. If `largest` is 0, the memory with one
  // sequence.
  MemoryForecast memory;
  // The memory with one more sequence than `largest`. Undefined if `of_the_plan` is set or
  // `largest` is 0.
  MemoryForecast beyond;
};

// Finds the largest micro-batch that fits. Ignores the scenario's micro-batch size and keeps its
// number of micro-batches. The result is exact: even the lower bound memory::PeakInHostOrder
// exceeds the device's memory for every micro-batch above `largest`. The bound never falls as the
// micro-batch grows, because lowering writes the same instructions for every size, with buffers
// that never shrink. Requires a model whose activations grow with the micro-batch (no layer list).
// Errors: those of forecasts.
Result<MicroBatchLimit> FindMicroBatchLimit(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
