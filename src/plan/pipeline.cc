#include "src/plan/pipeline.h"

#include <utility>

#include "src/base/check.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/plan/framework_style.h"

namespace stepcast::plan {

namespace {

// Whether torch.distributed.pipelining runs a list of actions, which says when gradients are
// reduced.
bool RunsActions(const Plan& plan) {
  return StyleOf(plan.data_parallel.framework).engine == PipelineEngine::kTorch;
}

parallel::PipelineSchedule PassesOf(const Plan& plan, int micro_batches) {
  const Parallelism& axes = plan.parallelism;
  if (axes.listed != nullptr) return *axes.listed;
  const parallel::NamedSchedule* named = parallel::FindSchedule(axes.schedule);
  STEPCAST_CHECK(named != nullptr, "the plan's schedule must be known");
  return named->build({static_cast<int>(axes.pipeline), micro_batches,
                       static_cast<int>(axes.virtual_stages),
                       static_cast<int>(axes.microbatch_group_size_per_vp_stage)});
}

}  // namespace

bool RunsListedActions(const Plan& plan) {
  const Parallelism& axes = plan.parallelism;
  if (!RunsActions(plan) || axes.pipeline == 1) return false;
  return axes.listed != nullptr || (axes.schedule != "1f1b" && axes.schedule != "gpipe");
}

parallel::PipelineSchedule ScheduleOf(const Plan& plan) {
  const auto micro_batches = static_cast<int>(plan.training.gradient_accumulation);
  parallel::PipelineSchedule schedule = plan.parallelism.pipeline == 1
                                            ? parallel::Sequential(micro_batches)
                                            : PassesOf(plan, micro_batches);
  if (plan.mixture.overlap_communication) schedule = parallel::Combined(std::move(schedule));
  if (plan.parallelism.pipeline == 1 || !RunsActions(plan)) return schedule;
  if (RunsListedActions(plan)) schedule = parallel::WithUnshards(std::move(schedule));
  return parallel::WithReductions(std::move(schedule));
}

std::vector<int> StagesOfChunks(const Plan& plan) {
  if (plan.parallelism.pipeline == 1 || !plan.training.checkpointed_blocks.is_part()) return {};
  const parallel::PipelineSchedule schedule = ScheduleOf(plan);
  std::vector<int> stages(static_cast<std::size_t>(parallel::Chunks(schedule)));
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    for (const int chunk : schedule.stages[stage].chunks) {
      stages[static_cast<std::size_t>(chunk)] = static_cast<int>(stage);
    }
  }
  return stages;
}

}  // namespace stepcast::plan
