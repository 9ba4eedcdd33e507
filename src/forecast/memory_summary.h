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
// FP32 gradient accumulation adds 4 bytes per parameter to the 16-bit gradients, or 4/N if
// gradients are sharded. Shards have no padding and are rounded up to a byte.
BytesByCategory MemoryFormula(const scenario::Scenario& scenario);

// Memory on a scenario's devices and nodes that the programs do not allocate.

// Returns the bytes of device memory outside the allocator of a rank with `communicators`
// communicators. Zero for the `reference` framework, and if the profile lacks these values.
Bytes OutsideAllocator(const scenario::Scenario& scenario, std::size_t communicators);

// Returns the relative error of forecasts of the allocator's memory, for the framework on the
// scenario's devices (uncertainty.h). 0 if there is no allocator.
double MemoryErrorOf(const scenario::Scenario& scenario, plan::Framework framework);

// Returns the probability that a rank fits with `reserved` bytes in its allocator and `outside`
// bytes outside the allocator. 1 or 0 for the `reference` framework, which has no forecast error.
double FitProbabilityOf(const scenario::Scenario& scenario, Bytes reserved, Bytes outside);

// Returns the device memory that is available to the program.
memory::Device DeviceOf(const scenario::Scenario& scenario, const program::Program& program);

// Summarizes the memory of one rank. `usage` must be from a replay of the program on DeviceOf's
// device.
MemoryForecast SummariseMemory(const scenario::Scenario& scenario, const program::Program& program,
                               const memory::Usage& usage);

// The largest micro-batch that fits in memory.

struct MicroBatchLimit {
  // The largest number of sequences in a micro-batch; 0 if even one sequence does not fit.
  std::int64_t largest = 0;
  // Whether the rules for legal plans (plan/legality.h), rather than memory, limit `largest`.
  bool of_the_plan = false;
  // The memory with micro-batches of `largest` sequences, or of one sequence if `largest` is 0.
  MemoryForecast memory;
  // The memory with one more sequence than `largest`. Undefined if `of_the_plan` is true or
  // `largest` is 0.
  MemoryForecast beyond;
};

// Finds the largest micro-batch that fits, with the scenario's number of micro-batches. Ignores the
// scenario's micro-batch size. The result is exact: for every larger micro-batch, the lower bound
// memory::PeakInHostOrder exceeds the device's memory. Requires a model whose activations grow with
// the micro-batch (no layer list). Errors: the errors of forecasts.
Result<MicroBatchLimit> FindMicroBatchLimit(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
