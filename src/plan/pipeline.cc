#include "src/plan/pipeline.h"

#include "src/base/check.h"
#include "src/parallel/named_schedules.h"

namespace stepcast::plan {

parallel::PipelineSchedule ScheduleOf(const Plan& plan) {
  const auto micro_batches = static_cast<int>(plan.training.gradient_accumulation);
  const Parallelism& axes = plan.parallelism;
  if (axes.pipeline == 1) return parallel::Sequential(micro_batches);
  if (axes.listed != nullptr) return *axes.listed;
  const parallel::NamedSchedule* named = parallel::FindSchedule(axes.schedule);
  STEPCAST_CHECK(named != nullptr, "the plan's schedule is known");
  return named->build(
      {static_cast<int>(axes.pipeline), micro_batches, static_cast<int>(axes.virtual_stages)});
}

}  // namespace stepcast::plan
