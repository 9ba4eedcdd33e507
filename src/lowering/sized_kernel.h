#pragma once

#include "src/base/kernel.h"
#include "src/lowering/formulas.h"

namespace stepcast::lowering {

// A kernel whose traffic (in bytes) and given time (in picoseconds) may depend on the number of
// ranks in a shard group; they are not in `kernel`.
struct SizedKernel {
  Kernel kernel;
  Amount read{}, written{}, given{};
};

}  // namespace stepcast::lowering
