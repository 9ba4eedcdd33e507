#pragma once

#include "src/nccl/terms.h"

namespace stepcast::nccl {

// What part of their bandwidth trees reach at a size: NCCL's correction of its own model, measured
// for powers of two from 64 B on (NVIDIA/nccl, src/graph/tuning.cc). `step` is floor(log2(bytes /
// 64)), 0 to kTreeCorrections - 1.
inline constexpr int kTreeCorrections = 24;

constexpr double TreeCorrection(Protocol protocol, int step) {
  constexpr double kFactors[3][kTreeCorrections] = {
      {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
      {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
      {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
       .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};
  return kFactors[static_cast<int>(protocol)][step];
}

}  // namespace stepcast::nccl
