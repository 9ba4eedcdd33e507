#pragma once

#include "src/cost/prices.h"
#include "src/lowering/lowering.h"

namespace stepcast::forecast {

// Ranks that run one program on one kind of node, and what its operations cost there. A scenario
// has those of the first kind first, of each kind by stage of the pipeline.
struct PricedClass {
  lowering::LoweredClass lowered;
  cost::Prices prices;
  int kind = 0;  // of their nodes (scenario/node_kinds.h)
};

}  // namespace stepcast::forecast
