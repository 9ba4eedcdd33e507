#pragma once

#include <vector>

#include "src/parallel/pipeline_schedule.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// Returns whether torch.distributed.pipelining runs a stage's actions from a list
// (_PipelineScheduleRuntime). False for GPipe and 1F1B, which have one chunk per stage
// (PipelineScheduleSingle).
bool RunsListedActions(const Plan& plan);

// Returns the passes of each stage of the plan's pipeline in one step, in order. Without a
// pipeline, one stage runs all micro-batches in sequence. With fsdp2, the schedule also has the
// gathers and frees of a chunk's parameters, and the reduction of its gradients.
parallel::PipelineSchedule ScheduleOf(const Plan& plan);

// Returns the stage of each chunk, which model::WorkOfLayers needs if only a part of the blocks is
// recomputed. Otherwise, returns an empty list.
std::vector<int> StagesOfChunks(const Plan& plan);

}  // namespace stepcast::plan
