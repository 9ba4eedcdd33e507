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

// Whether gradients of all parameters of a pipeline's stage wait for their reduction, as FSDP2 has
// them there, while as many activations are alive as ever: where micro-batches are many enough for
// the schedule to go forward and backward by turns when each chunk has run backward
// (named_schedules_test).
bool KeepsGatheredGradients(const scenario::Scenario& scenario);

// States, and beside them gradients, activations, or, where gradients are kept while activations
// are alive, both.
Bytes MemoryBeside(const scenario::Scenario& scenario, const StageParameters& stage,
                   Bytes activations, bool keeps_gradients);

// Whether so much at the peak, with `communicators`, can fit.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
