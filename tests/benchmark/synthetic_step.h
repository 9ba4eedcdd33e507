#pragma once

#include "src/cost/prices.h"
#include "src/program/program.h"

namespace stepcast::benchmark_programs {

struct PricedProgram {
  program::Program program;
  cost::Prices prices;
};

// A step like that of a fully sharded transformer. Each layer has an all-gather in advance on a
// separate stream, `kernels_per_layer` kernels forward and twice as many backward, activations that
// are allocated and released, and a reduce-scatter. Kernels and collectives share the SMs. The
// program is valid (program::Validate).
PricedProgram ShardedStep(int layers, int kernels_per_layer);

// Stage `stage` of a pipeline of `stages`, with one forward and one backward at a time. It
// exchanges activations and gradients with its neighbors by collectives of two ranks on separate
// streams. There are `kernels` kernels in a forward and twice as many in a backward. Its rank is
// its stage.
PricedProgram PipelineStage(int stage, int stages, int micro_batches, int kernels);

}  // namespace stepcast::benchmark_programs
