#pragma once

#include "src/cost/prices.h"
#include "src/forecast/rank_class.h"
#include "src/program/program.h"

namespace stepcast::forecast {

// The ranks of one label on one kind of node, their program, and what its operations cost there. A
// scenario has those of the first kind first, of each kind by label.
struct PricedClass : RankClass {
  program::Program program{};  // of the first rank that has the label
  cost::Prices prices{};
};

}  // namespace stepcast::forecast
