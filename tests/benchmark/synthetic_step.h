#pragma once

#include "src/cost/prices.h"
#include "src/program/program.h"

namespace stepcast::benchmark_programs {

struct PricedProgram {
  program::Program program;
  cost::Prices prices;
};

// A step like a fully sharded transformer's: per layer an all-gather ahead on its own stream,
// `kernels_per_layer` kernels forward and twice as many backward, activations allocated and
// released, and a reduce-scatter. Kernels and collectives share the SMs. The program is sound
// (program::Validate).
PricedProgram ShardedStep(int layers, int kernels_per_layer);

// Stage `stage` of a pipeline of `stages`, one forward and one backward at a time, handing
// activations and gradients to its neighbours by collectives of two ranks on streams of their own;
// `kernels` kernels a forward, twice as many a backward. Its rank is its stage.
PricedProgram PipelineStage(int stage, int stages, int micro_batches, int kernels);

}  // namespace stepcast::benchmark_programs
