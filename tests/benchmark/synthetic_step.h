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

}  // namespace stepcast::benchmark_programs
