#include "src/lowering/pipeline_stage.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/parallel/schedule_check.h"

namespace stepcast::lowering {

PipelineStage::PipelineStage(const scenario::Scenario& scenario, int stage)
    : whole_(scenario.model.get()),
      stage_(stage),
      stages_(static_cast<int>(scenario.plan.parallelism.pipeline)) {
  const auto micro_batches = static_cast<int>(scenario.plan.training.gradient_accumulation);
  if (stages_ == 1) {
    passes_.reserve(2 * static_cast<std::size_t>(micro_batches));
    for (int m = 0; m < micro_batches; ++m) {
      passes_.push_back({parallel::Task::kForward, m, 0});
      passes_.push_back({parallel::Task::kBackward, m, 0});
    }
    return;
  }
  const std::vector<int> begins =
      model::StageLayers(*whole_, scenario.plan.parallelism.stage_layers);
  const auto at = static_cast<std::size_t>(stage);
  part_ = model::StageOf(*whole_, begins[at], begins[at + 1]);
  for (std::size_t other = 0; other + 1 < begins.size(); ++other) {
    if (other == at) continue;
    for (int layer = begins[other]; layer < begins[other + 1]; ++layer) {
      for (const int tensor : whole_->layers[static_cast<std::size_t>(layer)].tensors) {
        const auto found = std::lower_bound(part_->tensors.begin(), part_->tensors.end(), tensor);
        if (found == part_->tensors.end() || *found != tensor) continue;
        tied_across_.push_back(static_cast<int>(found - part_->tensors.begin()));
      }
    }
  }
  const parallel::NamedSchedule* named = parallel::FindSchedule(scenario.plan.parallelism.schedule);
  STEPCAST_CHECK(named != nullptr, "the plan's schedule is known");
  const parallel::PipelineSchedule schedule = named->build(stages_, micro_batches);
  for (const parallel::ScheduleEntry& entry : schedule.stages[at].entries) {
    for (const parallel::Action& action : parallel::ActionsOf(entry)) passes_.push_back(action);
  }
  in_flight_ = parallel::MostInFlight(schedule)[at];
}

}  // namespace stepcast::lowering
