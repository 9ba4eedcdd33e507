#pragma once

#include <vector>

#include "src/parallel/pipeline_schedule.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// Whether torch.distributed.pipelining runs a stage's actions from a list
// (_PipelineScheduleRuntime). All its schedules do, except GPipe and 1F1B, which have their own
// code for one chunk per stage (PipelineScheduleSingle).
bool RunsListedActions(const Plan& plan);

// The passes of each stage of the plan's pipeline in a step, in order. Without a pipeline, one
// stage runs one micro-batch after the other. With fsdp2, also when a chunk's parameters are
// gathered and freed and its gradients reduced.
parallel::PipelineSchedule ScheduleOf(const Plan& plan);

// The stage of each chunk. Only filled if a part of the blocks is recomputed, which needs it
// (model::WorkOfLayers); otherwise empty.
std::vector<int> StagesOfChunks(const Plan& plan);

}  // namespace stepcast::plan
