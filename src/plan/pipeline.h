#pragma once

#include <vector>

#include "src/parallel/pipeline_schedule.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// torch.distributed.pipelining runs a stage's list of actions one by one
// (_PipelineScheduleRuntime): all its schedules do, but for GPipe and 1F1B, which are code of their
// own for one chunk a stage (PipelineScheduleSingle).
bool RunsListedActions(const Plan& plan);

// What the stages of the plan's pipeline compute in a step, in order; without a pipeline one stage
// takes one micro-batch after the other. With fsdp2 also when a chunk's parameters are gathered and
// freed and its gradients reduced.
parallel::PipelineSchedule ScheduleOf(const Plan& plan);

// The stage that has each chunk, where a part of the blocks is recomputed, for which it matters
// (model::WorkOfLayers); else empty.
std::vector<int> StagesOfChunks(const Plan& plan);

}  // namespace stepcast::plan
