#pragma once

#include "src/cost/prices.h"
#include "src/lowering/lowering.h"

namespace stepcast::forecast {

// Ranks that run one program, and what its operations cost on the scenario's devices.
struct PricedClass {
  lowering::LoweredClass lowered;
  cost::Prices prices;
};

}  // namespace stepcast::forecast
