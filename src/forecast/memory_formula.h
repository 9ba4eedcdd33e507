#pragma once

#include "src/forecast/values.h"
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

}  // namespace stepcast::forecast
