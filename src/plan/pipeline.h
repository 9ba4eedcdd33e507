#pragma once

#include "src/parallel/pipeline_schedule.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// What the stages of the plan's pipeline compute in a step, in order; without a pipeline one stage
// takes one micro-batch after the other.
parallel::PipelineSchedule ScheduleOf(const Plan& plan);

}  // namespace stepcast::plan
