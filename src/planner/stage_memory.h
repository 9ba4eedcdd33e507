#pragma once

#include "src/base/bytes.h"
#include "src/lowering/parameter_share.h"
#include "src/planner/bounds.h"
#include "src/scenario/scenario.h"

// Lower bounds of the memory of a rank by what it is for: states, gradients, activations.
namespace stepcast::planner {

// What a rank has of the model's tensors.
struct StageParameters {
  lowering::GroupElements trained{};
  Bytes frozen{};
};

// States, and beside them gradients, activations, or, where gradients are kept while activations
// are alive, both.
Bytes MemoryBeside(const scenario::Scenario& scenario, const StageParameters& stage,
                   Bytes activations, bool keeps_gradients);

// Whether so much at the peak, with `communicators`, can fit.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
