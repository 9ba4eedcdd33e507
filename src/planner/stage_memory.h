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

// Whether the whole gradients of a pipeline stage and the most activations of the step are alive at
// the same time. FSDP2 keeps a stage's gradients gathered until they are reduced behind the last
// micro-batch. The most activations come again after each chunk has run a backward if the schedule
// then still runs forwards and backwards by turns, for which there must be enough micro-batches
// (named_schedules_test).
bool KeepsGatheredGradients(const scenario::Scenario& scenario);

// States, and beside them gradients, activations, or, where gradients are kept while activations
// are alive, both.
Bytes MemoryBeside(const scenario::Scenario& scenario, const StageParameters& stage,
                   Bytes activations, bool keeps_gradients);

// Whether so much at the peak, with `communicators`, can fit.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
